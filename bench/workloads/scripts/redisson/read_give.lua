local known = redis.call('GET', KEYS[5])
if known then
  return tonumber(known)
end
if not redis.call('HGET', KEYS[1], 'mode') then
  redis.call(ARGV[3], KEYS[2], ARGV[1])
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
  return nil
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if count == 0 then
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[3] .. ':' .. (count + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  return redis.error_reply('ERR somebody else reads')
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[3], KEYS[2], ARGV[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[4])
return 1
