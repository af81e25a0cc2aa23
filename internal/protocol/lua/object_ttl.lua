-- ttl: for how long this key lives. Changes nothing.
--
-- KEYS[1]  the key
--
-- {1, now, ms}  -2 if there is no such key, -1 if it lives for ever
return {1, at, redis.call('PTTL', KEYS[1])}
