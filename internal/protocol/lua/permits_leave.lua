-- leave: this owner shall neither stand in line nor hold these permits, and nobody stands back for it any more.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- KEYS[3]     who waits for how many
-- ARGV[4]     the owner
-- ARGV[5...]  the permits' ids
--
-- {1, now, untold}
--
-- What was kept for it, or granted to it meanwhile, others have. So they have what is available: the one that leaves may
-- have been told to ask.

-- from line: step_out
-- from permits: free, lined, theirs, expired, IDS, pass_on
-- from semaphore_next: stand_down
if crowd then
  step_out(ARGV[4], ARGV[4] .. IDS)
end
local found = 0
for i = 5, #ARGV do
  found = found + redis.call('ZREM', KEYS[2], ARGV[i])
end
local stood = stand_down(KEYS[3], ARGV[5])
if found > 0 or free > 0 and (stood or crowd) then
  pass_on(redis.call('EXISTS', KEYS[1]) == 1 and found or 0)
end
return {1, at, untold}
