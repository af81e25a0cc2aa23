-- acquire: this owner, who holds the lock so many times, shall hold it once more.
--
-- KEYS[1..4]  see fair.lua
-- KEYS[5]     the last fencing token, if one is wanted
-- ARGV[4]     lease, ms
-- ARGV[5]     owner
-- ARGV[6]     the count before
-- ARGV[7]     the count after: one more
-- ARGV[8]     1 to stand in line if it is refused, and to go on asking; else 0
-- ARGV[9]     the payload
-- ARGV[10]    how long KEYS[5] lives, ms; 0: for ever; empty if there is none
-- ARGV[11]    the number of this ask, if the owner hears when it is granted the lock
-- ARGV[12]    how long a grant lasts, ms; and ARGV[13] is 1 if those who listen may do so at any node
--
-- now                           it does
-- {1, now, token}               it does, and a token is wanted
-- {0, now, pttl, holder, hint}  another owner holds it; or nobody does, pttl is -2
--                               and holder empty, and another one is next. hint
--                               is when to ask again at the latest, ms
-- {0, now, pttl, holder, hint, place, new, listens}  the same, and it may be granted the lock. new is 1 if that
--                               could not be before; listens is 1 if the owner listens on its own channel as well,
--                               since one of Redisson's stands in line, or holds the lock, and tells it there
-- {-2, now, count}              the count was another one; nothing was done
--
-- A free lock is granted to the first in line; to whoever asks if nobody stands
-- there, or, unless it stands there itself, nobody who was heard of. The owner keeps
-- the place that it has. Whoever stands there and asks, or finds the lock free, finds those ahead who are
-- gone, and tells the next one.

-- from common: lease
-- from line: LINE
local exist, lined
if ARGV[6] == '0' then
  exist = redis.pcall('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], ASKS)
  lined = type(exist) == 'number' -- else nothing is written to ASKS: see line.lua
  if not lined then
    exist = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  end
  if exist == 0 and not KEYS[5] then
    redis.call('HSET', KEYS[1], ARGV[5], ARGV[7]) -- nobody holds it, and nobody stands in line
    redis.call('PEXPIRE', KEYS[1], lease)
    return at
  end
end

local me, stands = ARGV[5], ARGV[8] == '1'
-- Of another type, one of them is an error before anything is written.
local known = redis.call('ZSCORE', KEYS[3], me) or redis.call('ZSCORE', KEYS[4], me)
local held = redis.call('HGETALL', KEYS[1])
local free = not held[1]
local count = '0'
for i = 1, #held, 2 do
  if held[i] == me then
    count = held[i + 1]
  end
end

-- from common: ours
-- from line: FIRST, SPREAD, LIVES, SPELT
-- from fair: PAUSE, BELIEF, SCORE, JAVA_WAIT, LIMIT, grace_ends
local LOOK = 1000 -- how far into the line to look for the owner's place

-- refuse replies that somebody else holds the lock, or is next. If it stands in line from now on, comes is true.
local function refuse(hint, comes)
  local pttl = redis.call('PTTL', KEYS[1])
  local reply = {0, at, pttl, held[1] or '', hint or pttl >= 0 and pttl or BELIEF}
  if not stands then
    return reply
  end
  local scores, beats = redis.call('ZCARD', KEYS[3]), redis.call('ZCARD', KEYS[4])
  -- Usually the set knows as well whether it stands there, but what Redis has
  -- evicted it has not evicted from both.
  local place, length, pushed = nil, nil, false
  if known or scores == 0 then
    place = redis.call('LPOS', KEYS[2], me, 'MAXLEN', LOOK)
    length = redis.call('LLEN', KEYS[2])
  end
  if not place and known and length > LOOK then
    place = length
  elseif not place then
    length = redis.call('RPUSH', KEYS[2], me)
    place, pushed = length - 1, true
  end
  if pushed and length == 1 then -- there is nobody to wait for
    if exist > 1 then
      redis.call('DEL', KEYS[3], KEYS[4]) -- left over from a line that was lost
      redis.pcall('DEL', ASKS)
    end
    scores, beats, silent, back, grace = 0, 0, true, 0, at
  end
  if back > 0 then
    for _, waiter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], string.format('(%.0f', at), '+inf')) do
      redis.call('ZADD', KEYS[4], math.max(redis.call('ZSCORE', KEYS[4], waiter) - back, at), waiter)
    end
  end
  local near, often = place < FIRST, PAUSE
  if not near and SPREAD * length > PAUSE then
    local live = redis.pcall('ZCOUNT', KEYS[4], at + 1, '+inf')
    often = math.max(PAUSE, SPREAD * (tonumber(live) or length))
  end
  local believed = at + BELIEF * often / PAUSE
  if silent then
    redis.call('ZADD', KEYS[4], believed, me, at, 'seen', grace_ends(), 'grace')
  else
    redis.call('ZADD', KEYS[4], believed, me, at, 'seen')
  end
  local theirs = math.max(scores - math.max(beats - 2, 0), 0)
  redis.call('ZADD', KEYS[3], at + SCORE + often - PAUSE + JAVA_WAIT * math.min(theirs, place), me)
  if lined and ARGV[11] then
    local before = not pushed and redis.pcall('HGET', ASKS, me)
    local since = string.match(type(before) == 'string' and before or '', '^%w+_(%d+) ') or string.format('%.0f', at)
    local ask = string.format('%s_%s %s %.0f %s%s', ARGV[11], since, ARGV[12], believed, ARGV[13], SPELT)
    local new = redis.pcall('HSET', ASKS, me, ask)
    if type(new) == 'number' then
      reply[6], reply[7], reply[8] = place, new, (theirs > 0 or held[1] and not ours(held[1])) and 1 or 0
    end
  elseif known then
    redis.pcall('HDEL', ASKS, me) -- it does not hear any more
  end
  if theirs > 0 then
    redis.call('PERSIST', KEYS[2])
    redis.call('PERSIST', KEYS[3])
  end
  if near or us % 8 == 0 then -- often enough, and cheaper than always
    for i = theirs > 0 and 4 or 2, 4 do
      redis.call('PEXPIRE', KEYS[i], LIVES)
    end
    redis.pcall('PEXPIRE', ASKS, LIVES)
  end
  if not near and not free then
    reply[5] = comes and us % often or often -- so that they do not ask together
  elseif pttl >= 0 then
    reply[5] = reply[5] + place * 50
  end
  reply[5] = math.min(reply[5], often)
  return reply
end

if count ~= ARGV[7] and count ~= ARGV[6] then
  if ARGV[6] == '0' then
    return {0, at, redis.call('PTTL', KEYS[1]), me, BELIEF} -- one that comes late
  end
  return {-2, at, tonumber(count)}
end
-- from common: OTHER_KIND, other_kind
if count == '0' and not free and other_kind(held[1], held[3]) then
  return redis.error_reply(OTHER_KIND)
end
if count == '0' and not free and stands and not known then
  return refuse(nil, true) -- whoever stands there looks for the dead
end

-- from fair: survey, left, tell, bury, remove_waiter, clear, spare

-- first says whether, by what survey has found, nobody stands before me. It is not
-- one expression, since the Lua of the server in memory gets that one wrong.
local function first(me, head, more)
  if more then
    return false
  end
  return not head or head == me
end

local gone, head, more = 0, false, count ~= '0'
local mine = true
if count == '0' then
  gone, head, more = survey(0, me)
  mine = free and first(me, head, more)
  if free and not mine then
    local there = stands and redis.call('ZSCORE', KEYS[4], me)
    if not there then
      local _, other, beyond = survey(gone, me, true)
      mine = first(me, other, beyond)
    end
  end
end

if not mine then
  local hint
  if free and more then
    hint = 0
  elseif free then
    tell(head, ARGV[9]) -- it may not know yet, or have missed the message
    hint = left(head)
  end
  bury(gone)
  if stands then
    for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', at, 'LIMIT', 0, LIMIT)) do
      if dead ~= 'seen' and dead ~= 'grace' and not redis.call('ZSCORE', KEYS[3], dead) then
        redis.call('ZREM', KEYS[4], dead) -- Java has dropped it
        redis.pcall('HDEL', ASKS, dead)
      end
    end
  elseif gone > 0 and not head and not more then
    clear()
  end
  local reply = refuse(hint)
  if not free or gone > 0 then
    spare(head)
  end
  return reply
end

local token
if KEYS[5] then
  -- from common: take_token
  local wrong
  token, wrong = take_token(KEYS[5], ARGV[10])
  if wrong then
    return wrong
  end
end
if head == me then
  gone, head, more = survey(gone + 1, me)
elseif known then
  remove_waiter(me) -- an entry that was left behind
end
bury(gone)
spare(head)
if exist and exist > 0 and not head and not more then
  clear()
end
redis.call('HSET', KEYS[1], me, ARGV[7])
if free then
  redis.call('PEXPIRE', KEYS[1], lease)
else
  -- from common: raise
  raise(KEYS[1], lease)
end
return token and {1, at, token} or at
