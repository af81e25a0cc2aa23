-- acquire: this owner shall hold the lock count times.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- ARGV[1]  lease, ms
-- ARGV[2]  owner
-- ARGV[3]  count: 1 to take the lock, more for a nested hold
-- ARGV[4]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}                it does
-- {0, now, pttl, holder}  another owner holds it
-- {-1, now}               too late
-- {-2, now}               nested, but the hold it was to be nested in is gone
--
-- It sets a state and adds nothing, so asking twice is asking once. The time to
-- live is never shortened: an outer hold keeps what it was promised.
if not string.match(ARGV[1], '^%d+$') or #ARGV[1] > 12 or ARGV[1] == '0' then
  return redis.error_reply('ERR lease is not a number of milliseconds: ' .. ARGV[1])
end
local at = now()
if too_late(at, ARGV[4]) then
  return {-1, at}
end
local count = redis.call('HGET', KEYS[1], ARGV[2])
if count then
  if count ~= ARGV[3] then
    redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
  end
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
  return {1, at}
end
if ARGV[3] ~= '1' then
  return {-2, at}
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {0, at, redis.call('PTTL', KEYS[1]), redis.call('HKEYS', KEYS[1])[1]}
end
redis.call('HSET', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {1, at}
