-- acquire: this owner, who holds the lock so many times, shall hold it once more.
--
-- KEYS[1]   the lock, a hash of owner -> count
-- KEYS[2]   the last fencing token, if one is wanted
-- ARGV[4]   lease, ms
-- ARGV[5]   owner
-- ARGV[6]   the count before
-- ARGV[7]   the count after: one more
-- ARGV[8]   how long KEYS[2] lives, ms; 0: for ever; empty if there is none
-- ARGV[9]   the number of this ask, if the owner is to stand in line when it is refused
-- ARGV[10]  how long a grant lasts, ms; and ARGV[11] is 1 if those who listen may do so at any node
--
-- now                     it does
-- {1, now, token}         it does, and a token is wanted
-- {0, now, pttl, holder}  somebody else holds it
-- {0, now, pttl, holder, hint}  the same; hint is when to ask again at the latest, ms
-- {0, now, pttl, holder, hint, place, new, listens}  the same, and the owner stands in line: see refuse in line.lua
-- {-2, now, count}        the count was another one; nothing was done
--
-- A free lock is granted to the first in line who hears of that: see line.lua. pttl is -2, and holder
-- empty, while it is left to those who do not stand there.
--
-- It goes from one state to another and adds nothing, so asking twice is asking
-- once: the count that it was to set is then there already. One that comes late
-- finds another state and does nothing.

-- from common: lease
-- from line: LINE
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
    -- from line: left_to, grant, step_out, refuse
    -- from common: OTHER_KIND, other_kind
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
  -- from common: take_token
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
  -- from common: raise
  raise(KEYS[1], lease)
end
return token and {1, at, token} or at
