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
local count = redis.call('HGET', KEYS[1], ARGV[5]) or '0'
if count == '0' then
  return {0, at}
end
if count ~= ARGV[6] or ARGV[7] ~= '0' then
  local n, from, to = tonumber(count), tonumber(ARGV[6]), tonumber(ARGV[7])
  if n > from or n < to then
    return {-2, at, n}
  end
  if to > 0 then
    local function even_if_full(remove, key)
      redis.call(remove, key, '')
    end
    even_if_full('HDEL', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
    return at
  end
end
redis.call('DEL', KEYS[1])
local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE
local stand = redis.pcall('EXISTS', LINE, TURN)
local lined = type(stand) == 'number'
if lined and stand > 0 then
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
  local FIRST, OFTEN, SPREAD, LIVES = 8, 1000, 12, 120000
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
  local MOST_LEFT = 32
  local function turn()
    local found = redis.pcall('GET', TURN)
    local pause, left = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+)$')
    if not left or left - at > MOST_LEFT then
      return 0, 0
    end
    return pause + 0, left + 0
  end
  local function set_turn(pause, left)
    local lives = left - at + pause + 100
    redis.pcall('SET', TURN, string.format('%.0f %.0f', pause, left), 'PX', string.format('%.0f', lives))
  end
  local LEFT, LATEST, LONGEST = 3, 10, 1000
  local function leave_turn(standing)
    local pause, left = turn()
    local due = left + pause
    if at >= due and (us % (standing + 1) == 0 or at >= due + LATEST) then
      left = at + math.min(LEFT + math.floor(pause / 4), MOST_LEFT)
      set_turn(math.min(2 * pause + 1, LONGEST), left)
    end
    return left - at
  end
  local function pass_on(ours)
    if
      ARGV[2] ~= '' and (listeners(ARGV[2]) or 0) - (ours or 0) > 0
      and leave_turn(tonumber(redis.pcall('ZCARD', LINE)) or 0) > 0
    then
      tell(1)
    elseif grant() then
      return 0, true
    end
    return publish(ARGV[4]) - (ours or 0), false
  end
  local heard, granted = pass_on(ARGV[8])
  return {1, at, heard, granted and 1 or 0, untold}
end
local announced, refused, heard = ARGV[2] ~= '', nil, nil
if announced then
  heard = redis.pcall(ARGV[3], ARGV[2], ARGV[4])
  refused = type(heard) == 'table' and heard.err or nil
end
if lined and announced and not refused and heard - (ARGV[8] or 0) > 0 then
  local MOST_LEFT = 32
  local function turn()
    local found = redis.pcall('GET', TURN)
    local pause, left = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+)$')
    if not left or left - at > MOST_LEFT then
      return 0, 0
    end
    return pause + 0, left + 0
  end
  local function set_turn(pause, left)
    local lives = left - at + pause + 100
    redis.pcall('SET', TURN, string.format('%.0f %.0f', pause, left), 'PX', string.format('%.0f', lives))
  end
  local LEFT, LATEST, LONGEST = 3, 10, 1000
  local function leave_turn(standing)
    local pause, left = turn()
    local due = left + pause
    if at >= due and (us % (standing + 1) == 0 or at >= due + LATEST) then
      left = at + math.min(LEFT + math.floor(pause / 4), MOST_LEFT)
      set_turn(math.min(2 * pause + 1, LONGEST), left)
    end
    return left - at
  end
  leave_turn(0)
end
return refused and {1, at, refused} or ARGV[8] and {1, at, heard - ARGV[8]} or at
