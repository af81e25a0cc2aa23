-- add: there shall be so many permits more.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
-- KEYS[3]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  so many; below 0: fewer
--
-- {1, now, available}, and untold

-- from calls: remembers, remember, integer
-- from permits: free, expired, announce, whole
if remembers(KEYS[3], ARGV[4]) then
  return {1, at, free}
end
local more, wrong = integer(ARGV[6])
if not wrong then
  wrong = select(2, integer(free + more))
end
if wrong then
  return wrong
end
if more > 0 then
  announce(free + more)
end
remember(KEYS[3], ARGV[4], ARGV[5])
return {1, at, redis.call('INCRBY', KEYS[1], whole(more)), untold}
