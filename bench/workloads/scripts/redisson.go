package scripts

import "github.com/holdfast-go/holdfast/driver"

// Scripts that do what Redisson's do, command for command, for a kind of lock each:
// keys, arguments and replies are the same. The text is ours. What follows a
// contended or nested lock is there only as far as it decides what a free one costs.

var likeMutexTake = driver.NewScript("redisson mutex take", `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`)

var likeMutexGive = driver.NewScript("redisson mutex give", `
local known = redis.call('GET', KEYS[3])
if known then
  return tonumber(known)
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1`)

var likeFairTake = driver.NewScript("redisson fair take", `
while true do
  local head = redis.call('LINDEX', KEYS[2], 0)
  if not head then
    break
  end
  local score = redis.call('ZSCORE', KEYS[3], head)
  if not score or tonumber(score) > tonumber(ARGV[4]) then
    break
  end
  redis.call('ZREM', KEYS[3], head)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0
  and (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == ARGV[2]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  local others = redis.call('ZRANGE', KEYS[3], 0, -1)
  for i = 1, #others do
    redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[3]), others[i])
  end
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`)

var likeFairGive = driver.NewScript("redisson fair give", `
local known = redis.call('GET', KEYS[5])
if known then
  return tonumber(known)
end
while true do
  local head = redis.call('LINDEX', KEYS[2], 0)
  if not head then
    break
  end
  local score = redis.call('ZSCORE', KEYS[3], head)
  if not score or tonumber(score) > tonumber(ARGV[4]) then
    break
  end
  redis.call('ZREM', KEYS[3], head)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  local head = redis.call('LINDEX', KEYS[2], 0)
  if head then
    redis.call(ARGV[5], KEYS[4] .. ':' .. head, ARGV[1])
  end
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
  return 1
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[5], 0, 'PX', ARGV[6])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
local head = redis.call('LINDEX', KEYS[2], 0)
if head then
  redis.call(ARGV[5], KEYS[4] .. ':' .. head, ARGV[1])
end
return 1`)

var likeReadTake = driver.NewScript("redisson read take", `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'read')
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('SET', KEYS[2] .. ':1', 1)
  redis.call('PEXPIRE', KEYS[2] .. ':1', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`)

var likeReadGive = driver.NewScript("redisson read give", `
local known = redis.call('GET', KEYS[5])
if known then
  return tonumber(known)
end
if not redis.call('HGET', KEYS[1], 'mode') then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  return nil
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if count == 0 then
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[3] .. ':' .. (count + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  return redis.error_reply('ERR somebody else reads')
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
return 1`)

var likeWriteTake = driver.NewScript("redisson write take", `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write')
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`)

var likeWriteGive = driver.NewScript("redisson write give", `
local known = redis.call('GET', KEYS[3])
if known then
  return tonumber(known)
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call(ARGV[4], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
  return nil
end
if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call(ARGV[4], KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1`)

var likePermitsTake = driver.NewScript("redisson permits take", `
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[3], 'LIMIT', 0, ARGV[1])
if #expired > 0 then
  return redis.error_reply('ERR a permit has expired')
end
local free = redis.call('GET', KEYS[1])
if free and tonumber(free) >= tonumber(ARGV[1]) then
  redis.call('DECRBY', KEYS[1], ARGV[1])
  for i = 6, #ARGV do
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[i])
  end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
  end
  return 'OK'
end
return nil`)

var likePermitsGive = driver.NewScript("redisson permits give", `
local expiry = redis.call('ZSCORE', KEYS[3], ARGV[1])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then
  return 0
end
local free = redis.call('INCRBY', KEYS[1], ARGV[2])
redis.call(ARGV[4], KEYS[2], free)
if tonumber(expiry) <= tonumber(ARGV[3]) then
  return 0
end
return 1`)
