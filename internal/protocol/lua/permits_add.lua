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
-- from permits: free, lined, theirs, expired, store, pass_on
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
remember(KEYS[3], ARGV[4], ARGV[5])
if more > 0 then
  pass_on(more)
else
  free = free + more
  store()
end
return {1, at, free, untold}
