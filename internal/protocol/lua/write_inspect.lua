-- inspect, for writing: what stands in Redis now. Changes nothing.
--
-- KEYS[1]  the lock
-- KEYS[2]  the last fencing token, if one is wanted
--
-- {1, now, pttl, mode, token, {owner, count}, {}}  who writes
--
-- pttl is -2 if nobody writes.
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local token = KEYS[2] and redis.call('GET', KEYS[2]) or '0'
local owner, count = writer(KEYS[1])
local ttl = -2
if owner then
  ttl = redis.call('PTTL', KEYS[1])
end
return {1, at, ttl, redis.call('HGET', KEYS[1], 'mode') or '', token, {owner, count}, {}}
