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
if redis.call('EXISTS', KEYS[1]) == 0
  and (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == ARGV[2]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  local others = redis.call('ZRANGE', KEYS[3], 0, -1)
  for i = 1, #others do
    redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[3]), others[i])
  end
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])
