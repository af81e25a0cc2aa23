-- leave: this owner shall not stand in line any more.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
--
-- now        it stood there
-- {0, now}   it did not
--
-- If it was next, and the lock is free, the one behind it is told: what it was
-- told itself is lost.

-- from fair: free, survey, tell, bury, drop, clear, spare
local me = ARGV[5]
local gone, head, more = survey(0, me)
local stood = head == me
if stood then
  gone, head, more = survey(gone + 1, me)
  if free then
    tell(head, ARGV[4])
    spare(head)
  end
end
bury(gone)
stood = drop(me) or stood
if not head and not more then
  clear()
end
return {stood and 1 or 0, at}
