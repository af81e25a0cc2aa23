-- renew: each of these locks shall live at least so long, if its owner holds it.
--
-- KEYS[i]      a lock, a hash of owner -> count
-- ARGV[1]      server time, ms, after which this call does nothing; 0: never
-- ARGV[2*i]    the owner that KEYS[i] is renewed for
-- ARGV[2*i+1]  time to live, ms; 0 only asks
--
-- {1, now, count...}  how often each owner holds its lock; 0: not at all
-- {-1, now}           too late
--
-- A key that is no lock any more is not held; it must not fail its neighbours.
local at = now()
if too_late(at, ARGV[1]) then
  return {-1, at}
end
local reply = {1, at}
for i, key in ipairs(KEYS) do
  local count = redis.pcall('HGET', key, ARGV[2 * i])
  local ttl = tonumber(ARGV[2 * i + 1])
  if type(count) ~= 'string' then
    count = 0
  end
  count = tonumber(count) or 0
  if count > 0 and ttl > 0 and redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
  reply[i + 2] = count
end
return reply
