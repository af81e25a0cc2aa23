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
local untold
local function publish(payload, channel)
  channel = channel or ARGV[2]
  if channel ~= '' then
    local reply = redis.pcall(ARGV[3], channel, payload)
    untold = type(reply) == 'table' and reply.err or untold
    return type(reply) == 'number' and reply or 0
  end
  return 0
end
local function held(key, owner)
  return redis.call('HGET', key, owner) or '0'
end
local function nothing_to_retain(owner, nobody)
  local count = tonumber(held(KEYS[1], owner))
  if held(KEYS[1], nobody) ~= '0' then
    return at
  elseif count == 0 then
    return {0, at}
  elseif count > tonumber(ARGV[6]) then
    return {-2, at, count}
  end
end
local function even_if_full(remove, key)
  redis.call(remove, key, '')
end
local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE
local FIRST, OFTEN, SPREAD, LIVES = 8, 1000, 12, 120000
local SPELT = string.find(KEYS[1], '{', 1, true) and '{' or ''
local function ask_of(owner)
  local ask = redis.pcall('HGET', ASKS, owner)
  return string.match(type(ask) == 'string' and ask or '', '^(%S+) (%d+) (%d+) (%d)' .. SPELT .. '$')
end
local function channel_of(owner)
  return (ARGV[3] == 'SPUBLISH' and LINE or 'holdfast_granted') .. ':' .. string.match(owner, '^[^:]*')
end
local HALF = 13
local function ask_again(number, after)
  return string.sub(number, 1, HALF) .. ' ' .. after
end
local function tell(after)
  for _, owner in ipairs(redis.pcall('ZRANGE', LINE, 0, FIRST - 1)) do
    local number = ask_of(owner)
    if number and publish(ask_again(number, after), channel_of(owner)) > 0 then
      return
    end
  end
end
local nothing = nothing_to_retain(ARGV[5], ARGV[7])
if nothing then
  return nothing
end
even_if_full('HDEL', KEYS[1])
publish(ARGV[4])
redis.call('HSET', KEYS[1], ARGV[7], '1')
redis.call('HDEL', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[8])
tell(0)
return {1, at, untold}
