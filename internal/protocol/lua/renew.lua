-- renew: extends each of these locks to at least a time to live, if its seat holds it.
--
-- KEYS[i]  a lock
-- ARGV     from ARGV[4] on, STRIDE arguments a lock: seat; time to live, ms, where 0 changes nothing; what the kind adds
--
-- {1, now, result...}  for each lock the result of stay, such as the seat's count

-- from kind: stay, STRIDE
local reply, first = {1, at}, 4
for i, key in ipairs(KEYS) do
  reply[i + 2] = stay(key, ARGV[first], ARGV[first + 1], ARGV[first + 2])
  first = first + STRIDE
end
return reply
