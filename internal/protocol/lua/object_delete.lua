-- delete: none of these keys shall be there.
--
-- {1, now, count}  how many were
return {1, at, redis.call('DEL', unpack(KEYS))}
