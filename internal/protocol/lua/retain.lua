-- retain: replaces the owner by a placeholder, which keeps the lock from all waiters for a while. A writer that goes on reading is
-- not replaced: other readers are let in beside it.
--
-- KEYS[1]  the lock
-- ARGV[4]  the payload: it makes waiters read the new time to live
-- ARGV[5]  seat
-- ARGV[6]  the largest count before
-- ARGV[7]  the placeholder's seat
-- ARGV[8]  the placeholder's time to live, ms
--
-- now               the placeholder holds the lock already
-- {1, now, untold}  done
-- {0, now}          the seat holds nothing; an earlier attempt of this call may have replaced it
-- {-2, now, count}  the count differs; nothing was done

-- from common: publish, even_if_full
-- from waitlist: send_retry, grant_room
-- from kind: count, replaceable, replace, drop, announce
local have = count(ARGV[5])
if count(ARGV[7]) > 0 then
  return at
elseif have == 0 then
  return {0, at}
elseif have > ARGV[6] + 0 then
  return {-2, at, have}
end
local wrong = replaceable(ARGV[5])
if wrong and wrong.err then
  return wrong
end
even_if_full('HDEL', KEYS[1])
announce(0)
if wrong then
  grant_room((drop({[ARGV[5]] = have})))
else
  replace(ARGV[5], ARGV[7], ARGV[8], 0)
  send_retry(0)
end
return {1, at, untold}
