-- release, for reading: this owner, who reads so many times, shall read fewer times.
--
-- KEYS[1]     the lock
-- KEYS[2...]  the owner's read holds before it
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the count after; 0 to read no more
-- ARGV[8]  what stands in front of the owner in KEYS[2]
--
-- now               it does
-- {0, now}          it does not read; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- The holds that remain live as long as the longest one did.

local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
if ARGV[6] == '1' and ARGV[7] == '0'
  and redis.call('HLEN', key) == 2 and redis.call('HGET', key, owner) == '1' and redis.call('HGET', key, 'mode') == 'read'
  and redis.call('PTTL', KEYS[2]) ~= -2 then
  -- Nobody else reads, and the one hold lives.
  -- from common: announced, refused
  redis.call('DEL', key, KEYS[2])
  return refused and {1, at, refused} or at
end

-- from common: publish
-- from rw: reading, drop_reads
local count, ttl = reading(key, prefix, owner)
local from, to = tonumber(ARGV[6]), tonumber(ARGV[7])
if count == 0 then
  return {0, at}
end
if count > from or count < to then
  return {-2, at, count}
end
if to > 0 then
  -- from common: even_if_full
  -- from rw: keep_reads
  even_if_full('HDEL', key)
  keep_reads(key, prefix, owner, count, to, ttl)
  drop_reads(prefix, owner, to + 1, from)
  return at
end
local lives = redis.call('PTTL', key)
if redis.call('HGET', key, 'mode') == 'write' then
  redis.call('HDEL', key, owner) -- it goes on writing
  drop_reads(prefix, owner, 1, from)
  return at
end
-- from rw: others, read_on
local longest, dead, seen = others(key, prefix, {[owner] = true}, lives)
if not seen or lives - longest > 1000 then
  -- It is free, or may be, or whoever waits for its end need not wait for so long.
  publish(ARGV[4])
end
redis.call('HDEL', key, owner)
drop_reads(prefix, owner, 1, from)
read_on(key, lives, longest, dead)
return {1, at, untold}
