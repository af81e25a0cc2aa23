-- release: this owner shall hold the lock at most count times.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the channel that releases are announced on
-- ARGV[1]  owner
-- ARGV[2]  count: 0 to give the lock back, more to leave a nested hold
-- ARGV[3]  the publish command
-- ARGV[4]  the payload
-- ARGV[5]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}   it does
-- {0, now}   it held nothing before
-- {-1, now}  too late
--
-- The message goes out first: a user without the right to publish then gets an
-- error while nothing has changed, for Redis does not roll back. Subscribers
-- cannot act before the script has ended.
local at = now()
if too_late(at, ARGV[5]) then
  return {-1, at}
end
local count = redis.call('HGET', KEYS[1], ARGV[1])
if not count then
  return {0, at}
end
if ARGV[2] == '0' then
  redis.call(ARGV[3], KEYS[2], ARGV[4])
  redis.call('DEL', KEYS[1])
elseif tonumber(count) > tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return {1, at}
