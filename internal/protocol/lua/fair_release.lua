-- release: this owner, who holds the lock so many times, shall hold it fewer times.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
-- ARGV[6]     the count before, at most
-- ARGV[7]     the count after; 0 to give the lock back
--
-- now               it does
-- {1, now, untold}  it does
-- {0, now}          it holds nothing; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- Whoever is next has the lock, or is told; also if the lock had gone by itself: nobody was told then.

local count = redis.call('HGET', KEYS[1], ARGV[5]) or '0'
local first
if count ~= '0' and count == ARGV[6] and ARGV[7] == '0' then
  first = redis.call('LRANGE', KEYS[2], 0, 1)
  redis.call('DEL', KEYS[1]) -- first: it needs no memory, what follows may
  if not first[1] then
    return at
  end
else
  local n, from, to = tonumber(count), tonumber(ARGV[6]), tonumber(ARGV[7])
  if n > from or n > 0 and n < to then
    return {-2, at, n}
  end
  if n > 0 and to > 0 then
    -- from common: even_if_full
    even_if_full('HDEL', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
    return at
  end
  if n > 0 then
    redis.call('DEL', KEYS[1])
  elseif redis.call('EXISTS', KEYS[1]) == 1 then
    return {0, at}
  end
end

-- from fair: grant, clear
local granted = first and grant(first[1]) -- as mostly
if granted then
  redis.call('LTRIM', KEYS[2], 1, -1)
  redis.call('ZREM', KEYS[3], first[1])
  redis.call('ZREM', KEYS[4], first[1])
  redis.pcall('HDEL', ASKS, first[1])
  local next = first[2] and redis.call('ZSCORE', KEYS[4], first[2])
  if not first[2] then
    clear()
  end
  if not first[2] or next and next - at > 0 then
    return untold and {1, at, untold} or at
  end
end

local free = count == '0' -- it was, before this call
-- from fair: survey, pass_on, bury, spare
local gone, head, more = survey(0)
if not granted then
  gone, head, more = pass_on(gone, head, more, ARGV[4])
end
bury(gone)
if gone > 0 and not head and not more then
  clear()
end
if count == '0' then
  return {0, at}
end
spare(head)
return {1, at, untold}
