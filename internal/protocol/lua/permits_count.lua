-- count: how many permits there are.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
--
-- {1, now, available, held}
return {1, at, free, redis.call('ZCARD', KEYS[2])}
