-- force: this owner shall not hold the lock any more.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the channel that releases are announced on
-- ARGV[1]  owner
-- ARGV[2]  the publish command
-- ARGV[3]  the payload
-- ARGV[4]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}   it did, and the lock is free now
-- {0, now}   it did not
-- {-1, now}  too late
--
-- It names the owner, so that asking again does not hit the next one.
local at = now()
if too_late(at, ARGV[4]) then
  return {-1, at}
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {0, at}
end
redis.call(ARGV[2], KEYS[2], ARGV[3])
redis.call('DEL', KEYS[1])
return {1, at}
