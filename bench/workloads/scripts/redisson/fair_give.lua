local known = redis.call('GET', KEYS[5])
if known then
  return tonumber(known)
end
while true do
  local head = redis.call('LINDEX', KEYS[2], 0)
  if not head then
    break
  end
  local score = redis.call('ZSCORE', KEYS[3], head)
  if not score or tonumber(score) > tonumber(ARGV[4]) then
    break
  end
  redis.call('ZREM', KEYS[3], head)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  local head = redis.call('LINDEX', KEYS[2], 0)
  if head then
    redis.call(ARGV[5], KEYS[4] .. ':' .. head, ARGV[1])
  end
  redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
  return 1
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[5], 0, 'PX', ARGV[6])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[5], 1, 'PX', ARGV[6])
local head = redis.call('LINDEX', KEYS[2], 0)
if head then
  redis.call(ARGV[5], KEYS[4] .. ':' .. head, ARGV[1])
end
return 1
