-- release: these permits shall not be held any more.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- ARGV[4]     how many of them have to be held; if fewer are, nothing is given back
-- ARGV[5]     the channel on which their holders are told; empty: they know
-- ARGV[6...]  the permits' ids
--
-- {1, now}   they are not, and as many as had to be were
-- {0, now}   fewer were held; an earlier send of this call may have given them back
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
