-- renew: extends each of these locks to at least a time to live, if its seat holds it.
--
-- KEYS     each lock, and behind it keys that the kind adds
-- ARGV     from ARGV[4] on, STRIDE arguments a lock: seat; time to live, ms, where 0 changes nothing; what the kind adds
--
-- {1, now, result...}  for each lock the result of stay, such as the seat's count

-- from kind: stay, STRIDE
local reply, key = {1, at}, 1
for first = 4, #ARGV, STRIDE do
  local result, more = stay(KEYS[key], ARGV[first], ARGV[first + 1], ARGV[first + 2])
  reply[#reply + 1] = result
  key = key + 1 + (more or 0)
end
return reply
