-- undo: this call shall have taken no permits, and shall take none any more.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the calls that have had their effect
-- KEYS[3]  who waits for how many
-- ARGV[4]  the id of the call to undo
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  how many permits it takes
-- ARGV[7]  this call's id
--
-- {1, now}
--
-- The call is kept as one that has had its effect, so that it has none when it
-- arrives late; this one, so that it gives nothing back twice.

-- from common: publish, even_if_full
-- from calls: remembers, remember
-- from semaphore: free, n
-- from semaphore_next: reservation, stand_down
if remembers(KEYS[2], ARGV[7]) then
  return at
end
even_if_full('ZREM', KEYS[2])
local took = remembers(KEYS[2], ARGV[4]) and n or 0
if took > 0 or reservation(KEYS[3]) == ARGV[4] then
  publish(string.format('%.0f', math.max(0, free + took)))
end
remember(KEYS[2], ARGV[4], ARGV[5])
remember(KEYS[2], ARGV[7], ARGV[5])
if took > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('INCRBY', KEYS[1], ARGV[6])
end
stand_down(KEYS[3], ARGV[4])
return {1, at, untold}
