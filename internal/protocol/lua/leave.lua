-- leave: removes a seat's entry, and releases a lock that was granted to it.
--
-- KEYS[1]  the lock, then keys that the kind adds
-- ARGV[4]  the payload
-- ARGV[5]  seat
-- ARGV[10] optional: what the seat waits for, as the kind writes it
--
-- {1, now, untold}  the seat had an entry or a grant; the next waiter gets the lock
-- {0, now, untold}  it had neither
--
-- A lock that is free is offered to the next waiter as well, because the one that leaves may have received the message to ask.

-- from common: publish
-- from waitlist: remove_entry
-- from kind: count, drop, idle
local listed, held = remove_entry(ARGV[5]), count(ARGV[5]) == 1
local free = held and drop({[ARGV[5]] = 1}) or idle()
if free > 0 then
  -- from waitlist: busy
  if busy then
    -- from waitlist: offer
    offer(free, 0)
  elseif held then
    -- from kind: announce
    announce(free)
  end
elseif listed then
  -- from kind: has_placeholder
  if has_placeholder() then -- the seat may be the waiter that knows until when
    -- from waitlist: send_retry
    send_retry(0)
  end
end
return {(listed or held) and 1 or 0, at, untold}
