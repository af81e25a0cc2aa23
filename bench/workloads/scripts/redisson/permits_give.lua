local expiry = redis.call('ZSCORE', KEYS[3], ARGV[1])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then
  return 0
end
local free = redis.call('INCRBY', KEYS[1], ARGV[2])
redis.call(ARGV[4], KEYS[2], free)
if tonumber(expiry) <= tonumber(ARGV[3]) then
  return 0
end
return 1
