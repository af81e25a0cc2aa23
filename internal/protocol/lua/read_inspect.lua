-- inspect, for reading: what stands in Redis now. Changes nothing.
--
-- KEYS[1]  the lock
-- ARGV[4]  what stands in front of an owner in the keys of its read holds
--
-- {1, now, pttl, mode, 0, {owner, count...}, {}}  who reads
--
-- pttl is -2 if nobody reads. A count whose keys have expired is not told.
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local found = {}
for owner in readers(KEYS[1]) do
  local count = reading(KEYS[1], ARGV[4], owner)
  if count > 0 then
    found[#found + 1] = owner
    found[#found + 1] = tostring(count)
  end
end
local ttl = -2
if #found > 0 then
  ttl = redis.call('PTTL', KEYS[1])
end
return {1, at, ttl, redis.call('HGET', KEYS[1], 'mode') or '', '0', found, {}}
