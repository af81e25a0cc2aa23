-- write: the hash says who a client is, and since when it holds what. It is for people, and
-- no lock depends on it.
--
-- KEYS[1]   the hash
-- ARGV[4]   1: nothing else is to be left in it
-- ARGV[5]   time to live, ms
-- ARGV[6]   program; then its version, the host, the process, and for how long the client
--           has been there, ms
-- ARGV[11]  how many fields follow, each with for how long what it names has been held, ms
-- ...       fields of what is held no more
local anew, count = ARGV[4] == '1', tonumber(ARGV[11])
if anew then
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'program', ARGV[6], 'version', ARGV[7], 'host', ARGV[8], 'pid', ARGV[9],
  'since', string.format('%.0f', at - ARGV[10]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
local i = 12
while i < 12 + 2 * count do
  redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', at - ARGV[i + 1]))
  i = i + 2
end
while i <= #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
  i = i + 1
end
return at
