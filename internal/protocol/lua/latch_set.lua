-- set: this call shall have made the latch, or have deleted it.
--
-- KEYS[1]  the count
-- KEYS[2]  the calls that have had their effect
-- KEYS[3]  when it was zero last, µs
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  the payload that says a new count, or none
-- ARGV[7]  the count; 0 deletes the latch
-- ARGV[8]  final, if a refusal is the last word
--
-- now       it has
-- {0, now}  the latch exists already, or does not exist

-- from common: publish, even_if_full
-- from calls: integer, remembers, remember, note_zero, was_refused, refuse_call
if remembers(KEYS[2], ARGV[4]) then
  return at
end
local _, wrong = integer(ARGV[7])
if not wrong then
  _, wrong = integer(redis.call('GET', KEYS[1])) -- another kind of object
end
if wrong then
  return wrong
end
local exists = redis.call('EXISTS', KEYS[1]) == 1
if exists ~= (ARGV[7] == '0') or was_refused(KEYS[2], ARGV[4]) then
  return refuse_call(KEYS[2], ARGV[4], ARGV[5])
end
if exists then
  even_if_full('ZREM', KEYS[2])
end
publish(ARGV[6])
remember(KEYS[2], ARGV[4], ARGV[5])
if exists then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[7])
end
note_zero(KEYS[3]) -- of one that is made, too: the one before may have expired, or been counted down by Redisson
return {1, at, untold}
