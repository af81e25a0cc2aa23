-- size: how much memory these keys take. Changes nothing.
--
-- KEYS     the keys of one lock; the first is the lock
-- ARGV[4]  what stands in front of an owner in the keys of its read holds; none
--          if the lock has no such keys
--
-- {1, now, bytes}
local bytes = 0
local function add(key)
  bytes = bytes + (redis.call('MEMORY', 'USAGE', key) or 0)
end
for i = 1, #KEYS do
  add(KEYS[i])
end
if ARGV[4] then
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    for j = 1, tonumber(fields[i + 1]) or 0 do
      add(read_key(ARGV[4], fields[i], j))
    end
  end
end
return {1, at, bytes}
