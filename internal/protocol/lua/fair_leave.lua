-- leave: this owner shall neither stand in line nor hold the lock.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5]     owner
--
-- {1, now, untold}  it stood there, or was granted the lock meanwhile
-- {0, now, untold}  neither
--
-- If it held the lock, or was next and the lock is free, the one behind it has the lock, or is told: what
-- it was told itself is lost.

-- from common: has_placeholder
-- from fair: free, survey, tell, pass_on, bury, remove_waiter, clear, spare
local me = ARGV[5]
local _, next = survey(0, me)
local held = redis.call('HGET', KEYS[1], me) == '1'
if held then
  redis.call('DEL', KEYS[1])
end
local stood = remove_waiter(me)
local gone, head, more = survey(0)
if held or free and next == me then
  gone, head, more = pass_on(gone, head, more, ARGV[4])
  spare(head)
elseif next == me and has_placeholder() then
  tell(head, ARGV[4])
end
bury(gone)
if not head and not more then
  clear()
end
return {(stood or held) and 1 or 0, at, untold}
