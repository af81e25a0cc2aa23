-- inspect: a number, and for how long it lives. Changes nothing.
--
-- KEYS[1]  a number
--
-- {1, now, pttl, '0', {}, {}, number}
--
-- pttl is -2 if there is none and -1 if it never expires.

-- from calls: integer
local number, wrong = integer(redis.call('GET', KEYS[1]))
return wrong or {1, at, redis.call('PTTL', KEYS[1]), '0', {}, {}, number}
