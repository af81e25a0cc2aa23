-- retain: this owner shall hold the lock no more, and nobody shall have it for a while:
-- an owner that nobody is holds it.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- ARGV[4]  the payload: who waits shall see until when
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

-- from common: publish, nothing_to_retain, even_if_full
-- from line: LINE, tell
local nothing = nothing_to_retain(ARGV[5], ARGV[7])
if nothing then
  return nothing
end
even_if_full('HDEL', KEYS[1])
publish(ARGV[4])
redis.call('HSET', KEYS[1], ARGV[7], '1')
redis.call('HDEL', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[8])
tell(0)
return {1, at, untold}
