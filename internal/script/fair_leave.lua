-- leave: this owner shall not stand in line any more.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
--
-- {1, now}   it stood there
-- {0, now}   it did not
--
-- If it was next, and the lock is free, the one behind it is told: what it was
-- told itself is lost.
local gone, head = survey(0, ARGV[5])
local stood = head == ARGV[5]
if stood then
  gone, head = survey(gone + 1)
  if free then
    tell(head, ARGV[4])
    spare(head)
  end
end
bury(gone)
stood = drop(ARGV[5]) or stood
tidy()
return {stood and 1 or 0, at}
