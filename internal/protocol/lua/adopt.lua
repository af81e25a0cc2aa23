-- adopt: replaces the owner of a hold; the new seat holds the lock once.
--
-- KEYS[1]  the lock
-- KEYS[2]  the last fencing token if ARGV[8] asks for one; otherwise keys that the kind adds
-- ARGV[2]  the old owner's channel: it may not know
-- ARGV[4]  lease, ms
-- ARGV[5]  seat
-- ARGV[6]  old seat
-- ARGV[7]  the count after, 1
-- ARGV[8]  the time to live of KEYS[2], ms; 0: none; empty: no token
-- ARGV[9]  the payload
--
-- now              done
-- {1, now, token}  done, with a fencing token
-- {0, now}         the old seat does not hold the lock

-- from common: lease, publish
-- from kind: count, replaceable, replace
local mine = count(ARGV[5])
if mine > 1 then
  return at -- the request is late
elseif mine == 0 and count(ARGV[6]) == 0 then
  return {0, at}
end
local wrong = mine == 0 and replaceable(ARGV[6])
if wrong then
  return wrong
end
-- from common: token
publish(ARGV[9])
replace(ARGV[6], ARGV[5], lease, mine)
return token and {1, at, token} or at
