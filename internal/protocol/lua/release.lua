-- release: lowers the count of a seat.
--
-- KEYS[1]  the lock, then keys that the kind adds
-- ARGV[4]  the payload
-- ARGV[5]  seat
-- ARGV[6]  the largest count before: an earlier acquire may have had no effect
-- ARGV[7]  the count after; 0 releases the lock
-- ARGV[8]  optional: 1 if the owner's client is subscribed to ARGV[2], or 0. The reply then has the number of other receivers
-- ARGV[10] optional: what the seat holds, as the kind writes it
--
-- now               done
-- {1, now, received, granted, untold}  done; the number of unlisted waiters that received the release message; 1 if an entry was granted
--                   the lock, or 0
-- {0, now}          the seat holds nothing; an earlier attempt of this call may have released it
-- {-2, now, count}  the count differs; nothing was done
--
-- The kind's prologue sets free, the room of the lock, if it has released the lock.

-- fast
if not free then
  -- from kind: count
  local have, to = count(ARGV[5]), ARGV[7] + 0
  if have == 0 then
    return {0, at}
  elseif have > ARGV[6] + 0 or have < to then
    return {-2, at, have}
  elseif to > 0 then
    -- from common: even_if_full
    -- from kind: keep
    even_if_full('HDEL', KEYS[1])
    keep(ARGV[5], have, ARGV[7])
    return at
  end
  -- from kind: drop
  local hurry
  free, hurry = drop({[ARGV[5]] = have})
  if free == 0 then
    -- from kind: announce
    if hurry then
      announce(0)
    end
    return untold and {1, at, 0, 0, untold} or at
  end
end
-- from waitlist: busy
if busy then
  -- from waitlist: offer
  local received, granted = offer(free, ARGV[8] or 0)
  return {1, at, received, granted, untold}
end
-- from waitlist: received, failed
-- from kind: SHARE
if usable and free >= SHARE and not failed and received - (ARGV[8] or 0) > 0 then
  -- from waitlist: maybe_yield
  maybe_yield(0)
end
return failed and {1, at, 0, 0, failed} or ARGV[8] and {1, at, received - ARGV[8], 0} or at
