package kit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// What Redisson's read-write lock does to what is in Redis, in our own words:
// enough of it to stand on the other side in these tests.
const (
	// KEYS: lock, read holds without their number; ARGV: lease, owner.
	redissonReads = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2] .. ':write') == 0 then
  return redis.call('PTTL', KEYS[1])
end
if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end
local i = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('SET', KEYS[2] .. ':' .. i, '1', 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])))
return false`
	// KEYS: lock, channel, read holds, what is in front of an owner; ARGV: owner.
	redissonReadsNoMore = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then redis.call('PUBLISH', KEYS[2], '0') return false end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if c == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('DEL', KEYS[3] .. ':' .. (c + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local longest = -3
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    for i = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. i))
    end
  end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) return 0 end
  if mode == 'write' then return 0 end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
	// KEYS: lock; ARGV: lease, field.
	redissonWrites = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return false
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])
  return false
end
return redis.call('PTTL', KEYS[1])`
	// KEYS: lock, channel; ARGV: lease, field.
	redissonWritesNoMore = `
if redis.call('HGET', KEYS[1], 'mode') ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return false end
if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], '1')
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
return 1`
	// KEYS: lock, read holds; ARGV: time to live, owner.
	redissonReadRenewal = `
local alive = 0
for i = tonumber(redis.call('HGET', KEYS[1], ARGV[2]) or '0'), 1, -1 do
  alive = alive + redis.call('PEXPIRE', KEYS[2] .. ':' .. i, ARGV[1])
end
if alive > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return alive`
)

// Redisson is one of Redisson's threads.
type Redisson struct {
	w     *World
	Name  string
	Owner string
}

// NewRedisson returns the thread of that owner, which uses the lock of that name.
func NewRedisson(w *World, name, owner string) Redisson { return Redisson{w, name, owner} }

// script runs one of the scripts above, and returns its reply as text.
func (j Redisson) script(text string, keys []string, args ...string) string {
	all := append([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys...)
	return j.w.Do(append(all, args...)...)
}

// Holds is the key of its read holds, without their number.
func (j Redisson) Holds() string { return protocol.ReadPrefix(j.Name) + j.Owner + ":rwlock_timeout" }

// Read and Write report whether they got the lock.
func (j Redisson) Read(lease time.Duration) bool {
	return j.script(redissonReads, []string{j.Name, j.Holds()}, ms(lease), j.Owner) == "<nil>"
}

// ReadNoMore and WriteNoMore give a hold back.
func (j Redisson) ReadNoMore() string {
	prefix := protocol.ReadPrefix(j.Name)
	return j.script(redissonReadsNoMore,
		[]string{j.Name, protocol.RWChannel(j.Name), j.Holds(), prefix[:len(prefix)-1]}, j.Owner)
}

func (j Redisson) Write(lease time.Duration) bool {
	return j.script(redissonWrites, []string{j.Name}, ms(lease), protocol.WriterField(j.Owner)) == "<nil>"
}

func (j Redisson) WriteNoMore() string {
	return j.script(redissonWritesNoMore, []string{j.Name, protocol.RWChannel(j.Name)}, "30000", protocol.WriterField(j.Owner))
}

// RenewReads is what its watchdog does for its read holds.
func (j Redisson) RenewReads() {
	j.script(redissonReadRenewal, []string{j.Name, j.Holds()}, "30000", j.Owner)
}

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
