-- force: nobody shall hold the lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel that releases are announced on
-- ARGV[1]  the publish command
-- ARGV[2]  the payload
-- ARGV[3]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}   it was held, and is free now
-- {0, now}   it was free
-- {-1, now}  too late
local at = now()
if too_late(at, ARGV[3]) then
  return {-1, at}
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {0, at}
end
redis.call(ARGV[1], KEYS[2], ARGV[2])
redis.call('DEL', KEYS[1])
return {1, at}
