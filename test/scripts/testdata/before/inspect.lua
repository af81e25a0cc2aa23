local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local at = (us - us % 1000) / 1000
if ARGV[1] ~= '0' and at - ARGV[1] > 0 then
  return {-1, at}
end
for i = 1, #KEYS do
  if #KEYS[i] > 4096 then
    return redis.error_reply('ERR a key has more than 4096 bytes')
  end
end
if ARGV[3] ~= 'PUBLISH' and ARGV[3] ~= 'SPUBLISH' then
  return redis.error_reply('ERR messages are published with another command')
end
local OTHER_KIND = 'WRONGTYPE the key is another kind of lock'
local function other_kind(field, another)
  return another or field and not string.find(field, ':', 1, true)
end
local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE
local token = KEYS[2] and redis.call('GET', KEYS[2]) or '0'
local found, pttl = redis.call('HGETALL', KEYS[1]), redis.call('PTTL', KEYS[1])
if other_kind(found[1], found[3]) then
  return redis.error_reply(OTHER_KIND)
end
local holders = found[1] and {found[1], '', found[2], string.format('%.0f', pttl)} or {}
local waiters = redis.pcall('ZRANGE', LINE, 0, 999)
return {1, at, pttl, token, holders, waiters.err and {} or waiters}
