-- Pieces for the semaphore without leases.
--
-- KEYS[1]  how many permits are available, a number
-- KEYS[2]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  a number of permits

-- free is how many are available, n is ARGV[6]. If they are no numbers, nothing is
-- done.
-- from calls: integer
local free, wrong = integer(redis.call('GET', KEYS[1]))
if wrong then
  return wrong
end
local n
n, wrong = integer(ARGV[6])
if not wrong then
  wrong = select(2, integer(free + n))
end
if wrong then
  return wrong
end

-- change adds to the available permits, and announces how many there are if they
-- are not fewer. The time to live of the key stays.
-- from common: publish
-- from calls: remember
local function change(by)
  if by >= 0 then
    publish(string.format('%.0f', math.max(0, free + by)))
  end
  remember(KEYS[2], ARGV[4], ARGV[5])
  redis.call('INCRBY', KEYS[1], string.format('%.0f', by))
end
