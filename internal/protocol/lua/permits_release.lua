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

-- from common: publish
local available = redis.call('GET', KEYS[1]) or ''
local score = #ARGV == 6 and redis.call('ZSCORE', KEYS[2], ARGV[6])
if score and score - at > 0 and ARGV[4] == '1' and ARGV[5] == ''
  and (available == '0' or #available < 16 and string.match(available, '^-?[1-9]%d*$')) then
  publish(string.format('%.0f', math.max(0, available + 1))) -- one permit, which has not expired
  redis.call('ZREM', KEYS[2], ARGV[6])
  redis.call('INCRBY', KEYS[1], '1')
  return untold and {1, at, untold} or at
end

-- from permits: free, expired, announce, tell_holders, give_back
local found = {}
for i = 6, #ARGV do
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    found[#found + 1] = ARGV[i]
  end
end
if #found < tonumber(ARGV[4]) then
  return {0, at}
end
announce(free + #found)
tell_holders(ARGV[5])
for _, id in ipairs(found) do
  redis.call('ZREM', KEYS[2], id)
end
give_back(#found)
return {1, at, untold}
