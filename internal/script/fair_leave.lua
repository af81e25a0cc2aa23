-- leave: this owner does not wait any more. If it was its turn, the next one is
-- told.
--
-- KEYS[1...5] see fair.lua
-- ARGV[4]  the payload
-- ARGV[5]  owner
--
-- {1, now}  always
--
-- The message comes last, because who is next is known only then. If it is not
-- allowed, the next one finds out by itself.
local head = redis.call('LINDEX', KEYS[2], 0)
drop(ARGV[5])
tend()
if head == ARGV[5] and redis.call('EXISTS', KEYS[1]) == 0 then
  tell_next(ARGV[4])
end
return {1, at}
