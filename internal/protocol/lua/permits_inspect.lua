-- inspect: what stands in Redis now.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
--
-- {1, now, pttl, '', '0', {id, '1'...}, {}}
--
-- Ids are written in hexadecimal digits, as Redisson shows them. pttl is when the
-- last of them expires; -2 if none is held, -1 if one never does.
local pttl, holders = -2, {}
local held = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #held, 2 do
  holders[i] = string.gsub(held[i], '.', function(c)
    return string.format('%02x', string.byte(c))
  end)
  holders[i + 1] = '1'
  pttl = tonumber(held[i + 1]) - at
end
if held[1] and pttl + at >= 922337203685477 then
  pttl = -1
end
return {1, at, pttl, '', '0', holders, {}}
