-- renew, for reading: each of these locks shall live at least so long, and the
-- owner's read holds with it, if the owner reads.
--
-- KEYS     for each lock: the lock, and the owner's read holds as far as known
-- ARGV     for each lock, from the fourth on:
--   owner
--   time to live, ms; 0 only asks
--   how many read holds are among the keys
--   what stands in front of the owner in their names
--
-- {1, now, count...}  how often each owner reads; 0: not at all
--
-- A key that is no lock any more is not held; it must not fail its neighbours.

-- from common: even_if_full
-- from rw: reading, keep_reads, raise_all
local reply = {1, at}
local k, a = 1, 4
while a <= #ARGV do
  local key, owner, ttl, prefix = KEYS[k], ARGV[a], ARGV[a + 1], ARGV[a + 3]
  local count = 0
  if redis.call('TYPE', key).ok == 'hash' then
    count = reading(key, prefix, owner)
  end
  if count > 0 and ttl ~= '0' then
    even_if_full('HDEL', key)
    keep_reads(key, prefix, owner, count, count, ttl)
    raise_all(key, prefix, ttl)
  end
  reply[#reply + 1] = count
  k, a = k + 1 + tonumber(ARGV[a + 2]), a + 4
end
return reply
