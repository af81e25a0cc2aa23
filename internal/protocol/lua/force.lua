-- force: releases the lock of other owners.
--
-- KEYS[1]     the lock
-- ARGV[4]     the payload
-- ARGV[5...]  seats
--
-- {1, now, untold}  at least one seat held the lock; it is free now, or the next waiter's
-- {0, now}          none held it
--
-- The caller names the seats, so a repeated call does not hit a later holder.

-- from kind: count, drop, announce
-- from waitlist: grant_room
local free = 0
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then -- even if another program has written a value that is no count
    free = math.max(free, drop(ARGV[i], count(ARGV[i])))
  end
end
if free == 0 then
  return {0, at}
end
announce(free)
grant_room(free)
return {1, at, untold}
