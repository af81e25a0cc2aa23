-- adopt: this owner shall hold the lock, once, in the place of another one.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the last fencing token, if one is wanted
-- ARGV[2]  where the other one listens: it may not know of it
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the other one
-- ARGV[7]  how long KEYS[2] lives, ms; 0: for ever
-- ARGV[8]  the payload
--
-- now              it does
-- {1, now, token}  it does, and a token is wanted
-- {0, now}         the other one does not hold the lock

-- from common: OTHER_KIND, lease, publish, held, raise
local mine = tonumber(held(KEYS[1], ARGV[5]))
if mine > 1 then
  return at -- one that comes late
elseif mine == 0 and held(KEYS[1], ARGV[6]) == '0' then
  return {0, at}
elseif mine == 0 and redis.call('HKEYS', KEYS[1])[2] then
  return redis.error_reply(OTHER_KIND)
end
local token
if KEYS[2] then
  -- from common: take_token
  local wrong
  token, wrong = take_token(KEYS[2], ARGV[7])
  if wrong then
    return wrong
  end
end
publish(ARGV[8])
redis.call('HSET', KEYS[1], ARGV[5], '1')
redis.call('HDEL', KEYS[1], ARGV[6])
if mine == 0 then
  redis.call('PEXPIRE', KEYS[1], lease) -- nobody else holds it, and its owner knows of no longer lease
else
  raise(KEYS[1], lease)
end
return token and {1, at, token} or at
