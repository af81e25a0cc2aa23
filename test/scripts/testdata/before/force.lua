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
local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE
local SPELT = string.find(KEYS[1], '{', 1, true) and '{' or ''
local function ask_of(owner)
  local ask = redis.pcall('HGET', ASKS, owner)
  return string.match(type(ask) == 'string' and ask or '', '^(%S+) (%d+) (%d+) (%d)' .. SPELT .. '$')
end
local function channel_of(owner)
  return (ARGV[3] == 'SPUBLISH' and LINE or 'holdfast_granted') .. ':' .. string.match(owner, '^[^:]*')
end
local function listeners(channel)
  local counted = redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counted[2]
end
local function listening(owner)
  local number, lease, lives, scattered = ask_of(owner)
  if number and at - lives <= 0 then
    local channel = channel_of(owner)
    if scattered == '1' and ARGV[3] == 'PUBLISH' or listeners(channel) ~= 0 then
      return number, lease, channel
    end
  end
end
local MOST = 32
local function grant(me)
  for _ = 1, MOST do
    local first = redis.pcall('ZPOPMIN', LINE)
    local owner = not first.err and first[1]
    if not owner then
      return nil
    end
    if owner == me then
      redis.pcall('HDEL', ASKS, me)
      return me
    end
    local number, lease, channel = listening(owner)
    redis.pcall('HDEL', ASKS, owner)
    if number then
      if redis.pcall('HSET', KEYS[1], owner, '1') ~= 1 then
        return nil -- a cluster is moving the lock, and has not moved the line
      end
      redis.pcall('PEXPIRE', KEYS[1], lease)
      publish(number, channel)
      return owner
    end
  end
end
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    publish(ARGV[4])
    redis.call('DEL', KEYS[1])
    grant()
    return {1, at, untold}
  end
end
return {0, at}
