-- release: this owner, who holds the lock so many times, shall hold it fewer times.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the channel that releases are announced on
-- ARGV[1]  owner
-- ARGV[2]  the count before
-- ARGV[3]  the count after; 0 to give the lock back
-- ARGV[4]  1 if this was asked before without an answer, else 0
-- ARGV[5]  the publish command
-- ARGV[6]  the payload
-- ARGV[7]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}          it does
-- {0, now}          it held nothing before
-- {-1, now}         too late
-- {-2, now, count}  the count was another one; nothing was done
--
-- The message goes out first: a user without the right to publish then gets an
-- error while nothing has changed, for Redis does not roll back. Subscribers
-- cannot act before the script has ended.
local at = now()
if too_late(at, ARGV[7]) then
  return {-1, at}
end
local count = held(KEYS[1], ARGV[1])
if ARGV[4] == '1' and count == ARGV[3] then
  return {1, at}
end
if count == '0' then
  return {0, at}
end
if count ~= ARGV[2] then
  return {-2, at, tonumber(count)}
end
if ARGV[3] == '0' then
  redis.call(ARGV[5], KEYS[2], ARGV[6])
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return {1, at}
