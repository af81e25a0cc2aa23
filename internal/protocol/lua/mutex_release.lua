-- release: this owner, who holds the lock so many times, shall hold it fewer times.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most: an acquire before it may not have been answered
-- ARGV[7]  the count after; 0 to give the lock back
-- ARGV[8]  if there is one: say who has heard of it; 1 if the owner listens, too, else 0
--
-- now               it does
-- {1, now, heard}   it does, and so many have heard of it who do not stand in line
-- {1, now, heard, granted, untold}  the same; granted is 1 if one who stands in line has the lock, else 0
-- {0, now}          it holds nothing; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done

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
    -- from common: even_if_full
    even_if_full('HDEL', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
    return at
  end
end
redis.call('DEL', KEYS[1])
-- from line: LINE
local stand = redis.pcall('EXISTS', LINE, TURN)
local lined = type(stand) == 'number'
if lined and stand > 0 then
  -- from line: pass_on
  local heard, granted = pass_on(ARGV[8])
  return {1, at, heard, granted and 1 or 0, untold}
end
-- from common: announced, refused
if lined and announced and not refused and heard - (ARGV[8] or 0) > 0 then
  -- from line: leave_turn
  leave_turn(0)
end
return refused and {1, at, refused} or ARGV[8] and {1, at, heard - ARGV[8]} or at
