-- release: these permits shall not be held any more.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- ARGV[4]     how many of them have to be held
-- ARGV[5]     what if there are fewer: 1 gives them back all the same, 0 does not
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
if #found == 0 then
  return {0, at}
end
local enough = #found >= tonumber(ARGV[4])
if enough or ARGV[5] == '1' then
  announce(free + #found)
  for _, id in ipairs(found) do
    redis.call('ZREM', KEYS[2], id)
  end
  give_back(#found)
end
return {enough and 1 or 0, at}
