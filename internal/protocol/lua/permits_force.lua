-- force: releases permits of other holders by their ids.
--
-- KEYS[1]     the number of available permits
-- KEYS[2]     the held permits
-- ARGV[4]     the smallest number of them that have to be held; if fewer are, nothing is done
-- ARGV[5]     the channel that makes their holders check them
-- ARGV[6...]  ids, of any length
--
-- {1, now, untold}  done; the next waiters get them
-- {0, now}          fewer are held; an earlier attempt of this call may have released them

-- from waitlist: offer
-- from kind: available, add_available, tell_holders
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
add_available(#found)
offer(available, 0)
tell_holders(ARGV[5])
return {1, at, untold}
