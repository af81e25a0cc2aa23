local expired = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[3], 'LIMIT', 0, ARGV[1])
if #expired > 0 then
  return redis.error_reply('ERR a permit has expired')
end
local free = redis.call('GET', KEYS[1])
if free and tonumber(free) >= tonumber(ARGV[1]) then
  redis.call('DECRBY', KEYS[1], ARGV[1])
  for i = 6, #ARGV do
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[i])
  end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
  end
  return 'OK'
end
return nil
