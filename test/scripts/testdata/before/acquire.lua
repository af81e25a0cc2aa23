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
local lease = ARGV[4]
if not string.match(lease, '^[1-9]%d*$') or #lease > 12 then
  return redis.error_reply('ERR lease is not a number of milliseconds: ' .. lease)
end
local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE
local free = redis.pcall('EXISTS', KEYS[1], LINE, TURN)
local lined = type(free) == 'number' -- else there is no line for this user, or while a cluster moves the slot
if not lined then
  free = redis.call('EXISTS', KEYS[1])
end
free = free == 0
if not free or ARGV[6] ~= '0' then
  local me = ARGV[5]
  local count, held
  if ARGV[6] == '0' then
    held = redis.call('HGETALL', KEYS[1])
    count = held[1] == me and held[2]
  else
    count = redis.call('HGET', KEYS[1], me) or '0'
  end
  if count ~= ARGV[7] and ARGV[6] == '0' then
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
    local function listeners(channel)
      local counted = redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
      return counted[2]
    end
    local function left_to(channel, stands)
      local _, left = turn()
      if at >= left then
        return nil
      elseif listeners(channel) == 0 then -- whom it was left to has had it, or has gone
        redis.pcall('DEL', TURN)
      elseif stands then
        return (left - at + 1) / 2 -- they may have had it before it ends
      else
        set_turn(0, at) -- or the next release would be theirs again
        return nil, true
      end
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
    local SPELT = string.find(KEYS[1], '{', 1, true) and '{' or ''
    local function ask_of(owner)
      local ask = redis.pcall('HGET', ASKS, owner)
      return string.match(type(ask) == 'string' and ask or '', '^(%S+) (%d+) (%d+) (%d)' .. SPELT .. '$')
    end
    local function channel_of(owner)
      return (ARGV[3] == 'SPUBLISH' and LINE or 'holdfast_granted') .. ':' .. string.match(owner, '^[^:]*')
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
    local function step_out(me, ...)
      redis.pcall('HDEL', ASKS, me, ...)
      return redis.pcall('ZREM', LINE, me) == 1
    end
    local function ours(owner)
      return string.sub(owner, 15, 15) == '8'
    end
    local FIRST, OFTEN, SPREAD, LIVES = 8, 1000, 12, 120000
    local function take_place(me)
      local new = redis.pcall('ZADD', LINE, 'NX', string.format('%.0f', us), me)
      local length = type(new) == 'number' and tonumber(redis.pcall('ZCARD', LINE))
      local place = length and (new == 1 and length - 1 or tonumber(redis.pcall('ZRANK', LINE, me)))
      return place, new, place and (place < FIRST and OFTEN or math.max(OFTEN, SPREAD * length))
    end
    local function note_ask(me, place, often, number, lease, scattered, ...)
      local ask = string.format('%s %s %.0f %s%s', number, lease, at + 3 * often, scattered, SPELT)
      local noted = redis.pcall('HSET', ASKS, me, ask, ...)
      if place == 0 or us % 8 == 0 then -- often enough, and cheaper than always
        redis.pcall('PEXPIRE', LINE, LIVES)
        redis.pcall('PEXPIRE', ASKS, LIVES)
      end
      return type(noted) == 'number'
    end
    local function refuse(lined, holder, hint, me, number, lease, scattered)
      local theirs = holder and not ours(holder)
      if lined and theirs and turn() > 0 then -- it was left to them, and they have taken it
        set_turn(0, at)
      end
      local pttl = hint and -2 or redis.call('PTTL', KEYS[1])
      local reply = {0, at, pttl, holder or ''}
      local place, new, often
      if lined and number then
        place, new, often = take_place(me)
      end
      if place then
        if place < FIRST and pttl >= 0 then
          hint = pttl + place * 50
        elseif new == 1 and not hint then
          hint = us % often -- so that they do not ask together
        end
        hint = math.min(hint or often, often)
        if note_ask(me, place, often, number, lease, scattered) then -- else nobody could be told
          reply[6], reply[7], reply[8] = place, new, theirs and place < FIRST and 1 or 0
        end
      end
      reply[5] = hint
      return reply
    end
    local OTHER_KIND = 'WRONGTYPE the key is another kind of lock'
    local function other_kind(field, another)
      return another or field and not string.find(field, ':', 1, true)
    end
    local holder, hint = held[1] or nil, nil
    if not holder and not lined then
      free = true
    elseif not holder then
      local takes
      hint, takes = left_to('redisson_lock__channel' .. string.sub(LINE, 14), ARGV[9])
      holder = not hint and not takes and grant(me) or nil
      free = not hint and (not holder or holder == me)
    end
    if free and holder ~= me then -- it takes the lock though it may stand in line, and would be granted it again
      step_out(me)
    end
    if not free then
      if other_kind(holder, held[3]) then
        return redis.error_reply(OTHER_KIND)
      end
      return refuse(lined, holder, hint, me, ARGV[9], ARGV[10], ARGV[11])
    end
  elseif count ~= ARGV[7] and count ~= ARGV[6] then
    return {-2, at, tonumber(count)}
  end
end
local token
if KEYS[2] then
  local function take_token(key, ttl)
    local last = tonumber(redis.call('GET', key) or '0') or 2 ^ 53
    local token = math.max(last + 1, us)
    if not (token < 2 ^ 53) then -- nor if it is nan
      return nil, redis.error_reply('WRONGTYPE the last fencing token, at redisson_lock_token, is no number below 2^53')
    end
    local text = string.format('%.0f', token)
    if ttl == '0' then
      redis.call('SET', key, text)
    else
      redis.call('SET', key, text, 'PX', ttl)
    end
    return token
  end
  local wrong
  token, wrong = take_token(KEYS[2], ARGV[8])
  if wrong then
    return wrong
  end
end
redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
if free then
  redis.call('PEXPIRE', KEYS[1], lease)
else
  local function raise(key, ttl)
    if redis.call('PTTL', key) < tonumber(ttl) then
      redis.call('PEXPIRE', key, ttl)
    end
  end
  raise(KEYS[1], lease)
end
return token and {1, at, token} or at
