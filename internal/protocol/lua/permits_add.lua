-- add: adds to the permits.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the held permits
-- KEYS[3]  the calls that have taken effect
-- ARGV[4]  the call's idempotency key
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  the number to add; below 0: there are fewer permits then
--
-- {1, now, available, untold}

-- from calls: remembers, remember, integer
-- from waitlist: offer
-- from kind: stored, available, add_available
if remembers(KEYS[3], ARGV[4]) then
  return {1, at, available}
end
local more, wrong = integer(ARGV[6])
if not wrong then
  wrong = select(2, integer(available + more))
end
if wrong then
  return wrong
end
remember(KEYS[3], ARGV[4], ARGV[5])
stored = stored or more ~= 0
add_available(more)
if more > 0 then
  offer(available, 0)
end
return {1, at, available, untold}
