-- release: these permits shall not be held any more.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- ARGV[4]     how many of them have to be held; if fewer are, nothing is given back
-- ARGV[5]     the channel on which their holders are told; empty: they know
-- ARGV[6...]  the permits' ids
--
-- now        they are not, and as many as had to be were
-- {0, now}   fewer were held; an earlier send of this call may have given them back
--
-- Who stands in line has them, as far as they go.

-- from common: publish
-- from line: LINE
local score = #ARGV == 6 and redis.call('ZSCORE', KEYS[2], ARGV[6])
if score and score - at > 0 and ARGV[4] == '1' and ARGV[5] == '' then
  -- One permit, which has not expired. KEYS[1] counts twice, so 2 says that it is there, and nobody in line.
  local there = redis.pcall('EXISTS', KEYS[1], KEYS[1], LINE)
  local lined = type(there) == 'number'
  if not lined then
    there = redis.call('EXISTS', KEYS[1], KEYS[1])
  end
  local free = there == 2 and redis.pcall('INCRBY', KEYS[1], '1')
  if type(free) == 'number' then -- else what is wrong is told below; nothing has been done
    redis.call('ZREM', KEYS[2], ARGV[6])
    if publish(string.format('%.0f', math.max(0, free))) > 0 and lined then
      -- from line: leave_turn
      leave_turn(0)
    end
    return untold and {1, at, untold} or at
  end
end

-- from permits: free, lined, theirs, expired, tell_holders, pass_on
local found = {}
for i = 6, #ARGV do
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    found[#found + 1] = ARGV[i]
  end
end
if #found < tonumber(ARGV[4]) then
  return {0, at}
end
for _, id in ipairs(found) do
  redis.call('ZREM', KEYS[2], id)
end
pass_on(redis.call('EXISTS', KEYS[1]) == 1 and #found or 0) -- one that was deleted is not made anew by that
tell_holders(ARGV[5])
return {1, at, untold}
