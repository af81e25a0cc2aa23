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
-- ARGV[10]    how long KEYS[5] lives, ms; 0: for ever; if there is KEYS[5]
--
-- now                           it does
-- {1, now, token}               it does, and a token is wanted
-- {0, now, pttl, holder, hint}  another owner holds it; or nobody does, pttl is -2
--                               and holder empty, and another one is next. hint
--                               is when to ask again at the latest, ms
-- {-2, now, count}              the count was another one; nothing was done
--
-- A free lock is granted to the first in line; to whoever asks if nobody stands
-- there, or, unless it stands there itself, nobody who was heard of. The owner keeps
-- the place that it has. Whoever asks finds those ahead who are gone, and tells the
-- next one.

-- from common: lease
if ARGV[6] == '0' and not KEYS[5] and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[7]) -- nobody holds it, and nobody stands in line
  redis.call('PEXPIRE', KEYS[1], lease)
  return at
end

-- from common: raise
-- from fair: BELIEF, SCORE, JAVA_WAIT, LIVES, LIMIT, free, grace
-- from fair: survey, left, java, tell, bury, drop, clear, spare
local LOOK = 1000 -- how far into the line to look for the owner's place

-- first says whether, by what survey has found, nobody stands before me. It is not
-- one expression, since the Lua of the server in memory gets that one wrong.
local function first(me, head, more)
  if more then
    return false
  end
  return not head or head == me
end

redis.call('ZCARD', KEYS[3]) -- of another type, it is an error before anything is written
local me = ARGV[5]
local count = redis.call('HGET', KEYS[1], me) or '0'
if count ~= ARGV[7] and count ~= ARGV[6] then
  if ARGV[6] == '0' then
    return {0, at, redis.call('PTTL', KEYS[1]), me, BELIEF} -- one that comes late
  end
  return {-2, at, tonumber(count)}
end
local gone, head, more = 0, false, count ~= '0'
local mine = true
if count == '0' then
  gone, head, more = survey(0, me)
  mine = free and first(me, head, more)
  if free and not mine then
    local stands = ARGV[8] == '1' and redis.call('ZSCORE', KEYS[4], me)
    if not stands then
      local _, other, beyond = survey(gone, me, true)
      mine = first(me, other, beyond)
    end
  end
end

if not mine then
  -- from common: OTHER_KIND, foreign
  local holders = redis.call('HKEYS', KEYS[1])
  if foreign(holders[1], holders[2]) then
    return redis.error_reply(OTHER_KIND)
  end
  if free and not more then
    tell(head, ARGV[9]) -- it may not know yet, or have missed the message
  end
  bury(gone)
  if ARGV[8] == '1' then
    if redis.call('EXISTS', KEYS[2]) == 0 then
      clear() -- left over from a line that was lost
      grace = at -- there is nobody to wait for
    end
    -- Usually the set knows as well whether it stands there, but what Redis has
    -- evicted it has not evicted from both.
    local length = redis.call('LLEN', KEYS[2])
    local ahead = redis.call('LPOS', KEYS[2], me, 'MAXLEN', LOOK)
    if not ahead then
      ahead = length
      if length <= LOOK or not redis.call('ZSCORE', KEYS[3], me) then
        redis.call('RPUSH', KEYS[2], me)
      end
    end
    for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', at, 'LIMIT', 0, LIMIT)) do
      if not redis.call('ZSCORE', KEYS[3], dead) then
        redis.call('ZREM', KEYS[4], dead) -- Java has dropped it
      end
    end
    redis.call('ZADD', KEYS[4], at + BELIEF, me, at, 'seen', math.max(grace, at), 'grace')
    redis.call('ZADD', KEYS[3], at + SCORE, me)
    redis.call('PEXPIRE', KEYS[4], LIVES)
    local theirs = java()
    if theirs > 0 then
      redis.call('ZADD', KEYS[3], at + SCORE + JAVA_WAIT * math.min(theirs, ahead), me)
      redis.call('PERSIST', KEYS[2])
      redis.call('PERSIST', KEYS[3])
    else
      redis.call('PEXPIRE', KEYS[2], LIVES)
      redis.call('PEXPIRE', KEYS[3], LIVES)
    end
    head = head or me
  elseif gone > 0 and not head and not more then
    clear()
  end
  local pttl = redis.call('PTTL', KEYS[1])
  if not free or gone > 0 then
    spare(head)
  end
  local hint = pttl
  if free and more then
    hint = 0
  elseif head and head ~= me then
    hint = left(head)
  elseif pttl < 0 then
    hint = BELIEF
  end
  return {0, at, pttl, holders[1] or '', hint}
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
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0 then
  if head == me then
    gone, head, more = survey(gone + 1, me)
  elseif redis.call('ZSCORE', KEYS[3], me) then
    drop(me) -- an entry that was left behind
  end
  bury(gone)
  spare(head)
  if not head and not more then
    clear()
  end
end
redis.call('HSET', KEYS[1], me, ARGV[7])
raise(KEYS[1], lease)
return token and {1, at, token} or at
