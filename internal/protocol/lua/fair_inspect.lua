-- inspect: what stands in Redis now. Changes nothing.
--
-- KEYS[1..4]  see fair.lua
-- KEYS[5]     the last fencing token, if one is wanted
--
-- {1, now, pttl, token, {owner, mode, count, pttl...}, {waiter...}}
--
-- pttl is -2 if the lock is free and -1 if it never expires; mode is empty. The
-- waiters are those of the first LOOK places who are believed in, the next one
-- first.

-- from common: OTHER_KIND, other_kind
-- from fair: free, left
local LOOK = 1000

local token = KEYS[5] and redis.call('GET', KEYS[5]) or '0'
local waiters = {}
for _, waiter in ipairs(redis.call('LRANGE', KEYS[2], 0, LOOK - 1)) do
  if left(waiter, true) > 0 then
    waiters[#waiters + 1] = waiter
  end
end
local found, pttl = redis.call('HGETALL', KEYS[1]), redis.call('PTTL', KEYS[1])
if other_kind(found[1], found[3]) then
  return redis.error_reply(OTHER_KIND)
end
local holders = found[1] and {found[1], '', found[2], string.format('%.0f', pttl)} or {}
return {1, at, pttl, token, holders, waiters}
