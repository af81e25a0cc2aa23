-- inspect, in turn: what stands in Redis now. Changes nothing.
--
-- KEYS[1...5] see fair.lua
-- KEYS[6]  the last fencing token, if one is wanted
--
-- {1, now, pttl, mode, token, {owner, count...}, {waiter...}}
--
-- Waiters who are gone are not told.
local waiters = {}
local line = redis.call('LRANGE', KEYS[2], 0, -1)
for i = 1, #line do
  if left(line[i]) > 0 then
    waiters[#waiters + 1] = line[i]
  end
end
local token = KEYS[6] and redis.call('GET', KEYS[6]) or '0'
return {1, at, redis.call('PTTL', KEYS[1]), '', token, redis.call('HGETALL', KEYS[1]), waiters}
