-- down: this call shall have lowered the count by one. At zero the latch is gone,
-- which is announced.
--
-- KEYS[1]  the count
-- KEYS[2]  the calls that have had their effect
-- KEYS[3]  when it was zero last, µs
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  the payload that says zero
--
-- now       it has; or the count was zero already

-- from common: publish, even_if_full
-- from calls: integer, remembers, remember, note_zero
local count, wrong = integer(redis.call('GET', KEYS[1]))
if wrong then
  return wrong
end
if remembers(KEYS[2], ARGV[4]) then
  return at
end
even_if_full('ZREM', KEYS[2])
if count == 1 then
  publish(ARGV[6])
end
remember(KEYS[2], ARGV[4], ARGV[5]) -- at zero, too: an earlier send of this call may come when the latch is set anew
if count > 1 then
  redis.call('DECR', KEYS[1]) -- keeps the time to live
else
  redis.call('DEL', KEYS[1])
end
if count == 1 then
  note_zero(KEYS[3])
end
return {1, at, untold}
