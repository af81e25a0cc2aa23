-- force: releases the lock of other owners.
--
-- KEYS[1]     the lock
-- ARGV[4]     the payload
-- ARGV[5...]  seats; an empty one behind them stands for all others that hold the lock, if most of the seats do
--
-- {1, now, untold}  at least one seat held the lock; what this makes free is the next waiters'
-- {0, now}          none held it
--
-- The caller names the seats, so a repeated call does not hit a later holder.

-- from kind: count, drop, announce
-- from waitlist: grant_room
local seats, found = {}, 0
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then -- even if another program has written a value that is no count
    seats[ARGV[i]], found = count(ARGV[i]), found + 1
  end
end
if found == 0 then
  return {0, at}
elseif ARGV[#ARGV] == '' and 2 * found > #ARGV - 5 then
  seats[''] = 0
end
local free = drop(seats)
announce(free)
grant_room(free)
return {1, at, untold}
