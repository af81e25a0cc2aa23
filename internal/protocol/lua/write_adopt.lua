-- adopt, for writing: this owner shall write, once, in the place of another one.
--
-- KEYS[1]  the lock
-- KEYS[2]  the last fencing token, if one is wanted
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the other one
-- ARGV[7]  how long KEYS[2] lives, ms; 0: for ever
-- ARGV[8]  the payload
-- ARGV[9]  what stands in front of an owner in the keys of its read holds
--
-- now              it does
-- {1, now, token}  it does, and a token is wanted
-- {0, now}         the other one does not write
-- {-3, now}        the other one reads, too, and would go on reading beside it

-- from common: OTHER_KIND, lease, publish, held, raise
-- from rw: other_kind, reading
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local key, mine, other = KEYS[1], ARGV[5] .. ':write', ARGV[6] .. ':write'
local count = tonumber(held(key, mine))
if count > 1 then
  return at -- one that comes late
elseif count == 0 then
  if held(key, other) == '0' then
    return {0, at}
  elseif reading(key, ARGV[9], ARGV[6]) > 0 then
    return {-3, at}
  end
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
redis.call('HSET', key, mine, '1')
redis.call('HDEL', key, other)
if count == 0 then
  redis.call('PEXPIRE', key, lease) -- nobody else holds it, and its owner knows of no longer lease
else
  raise(key, lease)
end
return token and {1, at, token} or at
