-- renew: each of these locks shall live at least so long, if its owner holds it.
--
-- KEYS[i]      a lock, a hash of owner -> count
-- ARGV[2*i+2]  the owner that KEYS[i] is renewed for
-- ARGV[2*i+3]  time to live, ms; 0 only asks
--
-- {1, now, count...}  how often each owner holds its lock; 0: not at all
--
-- A key that is no lock any more is not held; it must not fail its neighbours.

-- from common: raise
local reply = {1, at}
for i, key in ipairs(KEYS) do
  local count = redis.pcall('HGET', key, ARGV[2 * i + 2])
  if type(count) ~= 'string' then
    count = 0
  end
  count = tonumber(count) or 0
  if not (count > 0 and count < 2 ^ 53) then
    count = 0
  end
  if count > 0 and ARGV[2 * i + 3] ~= '0' then
    raise(key, ARGV[2 * i + 3])
  end
  reply[i + 2] = count
end
return reply
