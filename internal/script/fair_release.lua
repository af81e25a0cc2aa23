-- release, in turn: this owner, who holds the lock so many times, shall hold it
-- fewer times; who is next is told.
--
-- KEYS[1...5] see fair.lua
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after; 0 to give the lock back
--
-- {1, now}          it does
-- {0, now}          it held nothing before
-- {-2, now, count}  the count was another one; nothing was done
local count = held(KEYS[1], ARGV[5])
if again and count == ARGV[7] then
  return {1, at}
end
if count == '0' then
  return {0, at}
end
if count ~= ARGV[6] then
  return {-2, at, tonumber(count)}
end
if ARGV[7] ~= '0' then
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
  return {1, at}
end
tell_next(ARGV[4])
redis.call('DEL', KEYS[1])
return {1, at}
