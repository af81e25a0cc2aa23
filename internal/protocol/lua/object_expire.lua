-- expire: these keys shall live for so long. Those that are not there are not made.
--
-- ARGV[2]  where those who hold something of it listen
-- ARGV[4]  ms; 0: for ever
--
-- {1, now, count}  how many are there, and untold

-- from common: publish
local found = redis.call('EXISTS', unpack(KEYS))
if found > 0 then
  publish('0')
end
for i = 1, #KEYS do
  if ARGV[4] == '0' then
    redis.call('PERSIST', KEYS[i])
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[4])
  end
end
return {1, at, found, untold}
