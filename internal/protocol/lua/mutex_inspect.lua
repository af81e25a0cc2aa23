-- inspect: what stands in Redis now. Changes nothing.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the last fencing token, if one is wanted
--
-- {1, now, pttl, token, {owner, mode, count, pttl...}, {waiter...}}
--
-- pttl is -2 if the lock is free and -1 if it never expires; mode is empty. Waiters are the first
-- thousand who stand in line.

-- from common: OTHER_KIND, other_kind
-- from line: LINE
local token = KEYS[2] and redis.call('GET', KEYS[2]) or '0'
local found, pttl = redis.call('HGETALL', KEYS[1]), redis.call('PTTL', KEYS[1])
if other_kind(found[1], found[3]) then
  return redis.error_reply(OTHER_KIND)
end
local holders = found[1] and {found[1], '', found[2], string.format('%.0f', pttl)} or {}
local waiters = redis.pcall('ZRANGE', LINE, 0, 999)
return {1, at, pttl, token, holders, waiters.err and {} or waiters}
