-- acquire: this call shall have taken so many permits.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the calls that have had their effect
-- KEYS[3]  who waits for how many
-- ARGV[4]  the call's id, which is who waits, too
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  so many
-- ARGV[7]  1 if the caller is going to wait if it is refused, else 0
--
-- now                             it has
-- {0, now, -1, '', again, free, -1, kept, exists}
--                                 too few are available, or another one has waited
--                                 longer; again is when to ask again at the latest,
--                                 ms; kept is how many stay for that other one;
--                                 exists is 0 if there is no semaphore. How many
--                                 are held, nobody knows

-- from calls: remembers, rewrite
-- from semaphore: free, n, change
-- from semaphore_next: wanted, begin_stretch, stand_next, stand_down
if remembers(KEYS[2], ARGV[4]) then
  rewrite(KEYS[2])
  return at
end
local kept, again = wanted(KEYS[3], ARGV[4])
if free - n < kept then
  if free >= n then
    begin_stretch(KEYS[3])
  end
  if ARGV[7] == '1' then
    stand_next(KEYS[3], ARGV[4], n)
  end
  return {0, at, -1, '', again, free, -1, kept, redis.call('EXISTS', KEYS[1])}
end
change(-n)
stand_down(KEYS[3], ARGV[4])
return at
