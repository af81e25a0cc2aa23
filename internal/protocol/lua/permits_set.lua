-- set: sets the number of permits, held ones included.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the held permits
-- KEYS[3]  the calls that have taken effect
-- ARGV[4]  the call's idempotency key
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  the number
-- ARGV[7]  0 leaves a semaphore alone that exists already
-- ARGV[8]  final, if a refusal is the last word
--
-- now              done, if none of them became available
-- {1, now, untold}  done
-- {0, now}         it exists already

-- from calls: remembers, remember, integer, was_refused, refuse_call
-- from waitlist: offer
-- from kind: stored, available, add_available
if remembers(KEYS[3], ARGV[4]) then
  return at
elseif stored and ARGV[7] == '0' or was_refused(KEYS[3], ARGV[4]) then
  return refuse_call(KEYS[3], ARGV[4], ARGV[5])
end
local total, wrong = integer(ARGV[6])
if wrong then
  return wrong
end
local more = total - redis.call('ZCARD', KEYS[2]) - available
remember(KEYS[3], ARGV[4], ARGV[5])
if not stored then
  stored = '0'
  redis.call('SET', KEYS[1], stored)
end
add_available(more) -- keeps the time to live
if more > 0 then
  offer(available, 0)
end
return {1, at, untold}
