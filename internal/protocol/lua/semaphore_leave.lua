-- leave: nobody stands back for this waiter any more.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  who waits for how many
-- ARGV[4]  the waiter
--
-- {1, now}
--
-- What was kept for it is announced, or the others would hear of it late.

-- from common: publish
-- from semaphore_next: reservation, stand_down
local free = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
if reservation(KEYS[2]) == ARGV[4] then
  if free > 0 then
    publish(string.format('%.0f', free))
  end
  stand_down(KEYS[2], ARGV[4])
end
return at
