-- retain: this owner shall hold the lock no more, and nobody shall have it for a while:
-- an owner that nobody is holds it.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]  the payload: who is next shall see until when
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the owner that nobody is
-- ARGV[8]  for how long, ms
--
-- now               it had been done before
-- {1, now, untold}  it is done
-- {0, now}          it holds nothing; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done

-- from common: nothing_to_retain, even_if_full
-- from fair: free, survey, tell
local nothing = nothing_to_retain(ARGV[5], ARGV[7])
if nothing then
  return nothing
end
local _, head = survey(0)
even_if_full('HDEL', KEYS[1])
tell(head, ARGV[4])
redis.call('HSET', KEYS[1], ARGV[7], '1')
redis.call('HDEL', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[8])
return {1, at, untold}
