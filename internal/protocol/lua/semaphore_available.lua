-- available: how many permits there are to be had now. Changes nothing.
--
-- KEYS[1]  a number
--
-- {1, now, available}
local free, wrong = integer(redis.call('GET', KEYS[1]))
return wrong or {1, at, free}
