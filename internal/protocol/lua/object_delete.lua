-- delete: none of these keys shall be there.
--
-- ARGV[2]  where those who hold something of it listen
--
-- {1, now, count}  how many were, and untold

-- from common: publish
if redis.call('EXISTS', unpack(KEYS)) > 0 then
  publish('0')
end
return {1, at, redis.call('DEL', unpack(KEYS)), untold}
