-- inspect: what stands in Redis now. Changes nothing.
--
-- KEYS[1]  the lock, a hash of owner -> count
--
-- {1, now, pttl, owner, count, owner, count...}
--
-- pttl is -2 if the lock is free and -1 if it never expires.
local reply = {1, now(), redis.call('PTTL', KEYS[1])}
for _, item in ipairs(redis.call('HGETALL', KEYS[1])) do
  reply[#reply + 1] = item
end
return reply
