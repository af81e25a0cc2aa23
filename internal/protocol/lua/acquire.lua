-- acquire: raises the count of a seat by one.
--
-- KEYS[1]   the lock
-- KEYS[2]   the last fencing token if ARGV[8] asks for one; otherwise keys that the kind adds
-- ARGV[4]   lease, ms
-- ARGV[5]   seat
-- ARGV[6]   the count before
-- ARGV[7]   the count after
-- ARGV[8]   the time to live of KEYS[2], ms; 0: none; empty: no token. This argument and the next two may be left out
-- ARGV[9]   'ID GRANT SCATTERED' adds an entry to the waitlist if the seat is refused: see REQUESTS in waitlist.lua. A + behind it
--           gives the entry a place in front of all others. 'unlisted' says that the caller does not wait, or waits without an entry, and may
--           use a yield window. Others may not: also not the first request of a caller that will have an entry
-- ARGV[10]  what the caller wants, as the kind writes it
--
-- now               done
-- {1, now, token}   done, with a fencing token; or with the time, ms, after which the lock ends though its lease does not
-- {0, now, pttl, holder, hint, position, new, listens, ...}  refused: see refusal in waitlist.lua
-- {-2, now, count}  the count differs; nothing was done
--
-- A free lock goes to the first live entry. pttl is -2, and holder empty, during a yield window.
--
-- The script sets a state and adds nothing, so a repeated acquire finds the count that it was to set. A late acquire finds another
-- state and does nothing.
--
-- The kind's prologue defines some, the number of keys that the lock and its waitlist have; and usable, which is false if Redis denies
-- this user the waitlist or moves the slot. Then some counts the lock alone.

-- fast
local seat, have = ARGV[5], 0
if some ~= 0 or ARGV[6] ~= '0' then
  -- from kind: count
  have = count(seat)
  local from, changed = ARGV[6] + 0, have ~= ARGV[7] + 0
  if changed and have ~= from and from > 0 then
    return {-2, at, have}
  elseif changed and have ~= from then -- the request is late: its owner has nested since
    local pttl = redis.call('PTTL', KEYS[1])
    return {0, at, pttl, string.match(seat, '^[^:]*:?[^:]*'), pttl, -1, 0, 0}
  elseif have == 0 or changed and ARGV[10] then
    -- from kind: room, size
    local what = ARGV[10] or ''
    local left, holder, joins, never = room(seat, what)
    if never then
      return never
    end
    local hint, mine, full
    if usable and left > 0 and not joins then
      -- from waitlist: yielded, grant_room
      -- from kind: SHARE
      local ends, granted
      hint, ends = yielded(ARGV[9] == 'unlisted')
      if not ends then
        local share = hint and SHARE or 0
        left, granted, mine, full = grant_room(left - share, seat, what)
        if granted > 0 and not mine then
          left, holder, joins = room(seat, what)
          left = left - share
        end
      end
    end
    local need = size(seat, what, left)
    if not mine and (full and not joins or not need or need > left) then
      -- from waitlist: refusal
      return refusal(usable, holder, hint, seat, ARGV[9] or '', what, need and need <= left and full)
    elseif usable and not mine and not (joins and some == 1) then -- an entry that is left behind would be granted the lock again
      -- from waitlist: remove_entry
      remove_entry(seat)
    end
  end
end
-- from common: token
-- from kind: take
local wrong, ends = take(seat, have, ARGV[7], lease, ARGV[10])
return wrong or (token or ends) and {1, at, token or ends} or at
