-- release: this owner, who holds the lock so many times, shall hold it fewer times.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
-- ARGV[6]     the count before, at most
-- ARGV[7]     the count after; 0 to give the lock back
--
-- now               it does
-- {0, now}          it holds nothing; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- Whoever is next is told, also if the lock had gone by itself: nobody was then.

local count = redis.call('HGET', KEYS[1], ARGV[5]) or '0'
if count ~= '0' and count == ARGV[6] and ARGV[7] == '0' and not redis.call('LINDEX', KEYS[2], 0) then
  redis.call('DEL', KEYS[1]) -- nobody stands in line
  return at
end

-- from fair: free, survey, tell, bury, clear, spare
local from, to = tonumber(ARGV[6]), tonumber(ARGV[7])
count = tonumber(count)
if count > from or count > 0 and count < to then
  return {-2, at, count}
end
if count > 0 and to > 0 then
  -- from common: even_if_full
  even_if_full('HDEL', KEYS[1])
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
  return at
end
if count == 0 and not free then
  return {0, at}
end
local gone, head, more = survey(0)
tell(head, ARGV[4])
redis.call('DEL', KEYS[1]) -- first: it needs no memory, what follows may
bury(gone)
if gone > 0 and not head and not more then
  clear()
end
if count == 0 then
  return {0, at}
end
spare(head)
return {1, at, untold}
