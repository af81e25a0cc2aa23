-- delete: none of these keys shall be there.
--
-- ARGV[2]  where those who hold something of it listen
--
-- {1, now, count}  how many were, and untold

-- from common: publish
publish('0')
return {1, at, redis.call('DEL', unpack(KEYS)), untold}
