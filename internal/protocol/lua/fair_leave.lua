-- leave: this owner shall neither stand in line nor hold the lock.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
--
-- now        it stood there, or was granted the lock meanwhile
-- {0, now}   neither
--
-- If it held the lock, or was next and the lock is free, the one behind it has it, or is told: what it
-- was told itself is lost.

-- from fair: free, survey, pass_on, bury, drop, clear, spare
local me = ARGV[5]
local held = redis.call('HGET', KEYS[1], me) == '1'
if held then
  redis.call('DEL', KEYS[1])
end
local gone, head, more = survey(0, me)
local stood = head == me
if stood then
  gone, head, more = survey(gone + 1, me)
end
if held or stood and free then
  gone, head, more = pass_on(gone, head, more, ARGV[4], me)
  spare(head)
end
bury(gone)
stood = drop(me) or stood or held
if not head and not more then
  clear()
end
return {stood and 1 or 0, at}
