local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local at = (us - us % 1000) / 1000
if ARGV[1] ~= '0' and at - ARGV[1] > 0 then
  return {-1, at}
end
for i = 1, #KEYS do
  if #KEYS[i] > 4096 then
    return redis.error_reply('ERR a key has more than 4096 bytes')
  end
end
if ARGV[3] ~= 'PUBLISH' and ARGV[3] ~= 'SPUBLISH' then
  return redis.error_reply('ERR messages are published with another command')
end
local OTHER_KIND = 'WRONGTYPE the key is another kind of lock'
local lease = ARGV[4]
if not string.match(lease, '^[1-9]%d*$') or #lease > 12 then
  return redis.error_reply('ERR lease is not a number of milliseconds: ' .. lease)
end
local untold
local function publish(payload, channel)
  channel = channel or ARGV[2]
  if channel ~= '' then
    local reply = redis.pcall(ARGV[3], channel, payload)
    untold = type(reply) == 'table' and reply.err or untold
    return type(reply) == 'number' and reply or 0
  end
  return 0
end
local function held(key, owner)
  return redis.call('HGET', key, owner) or '0'
end
local function raise(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end
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
  local function take_token(key, ttl)
    local last = tonumber(redis.call('GET', key) or '0') or 2 ^ 53
    local token = math.max(last + 1, us)
    if not (token < 2 ^ 53) then -- nor if it is nan
      return nil, redis.error_reply('WRONGTYPE the last fencing token, at redisson_lock_token, is no number below 2^53')
    end
    local text = string.format('%.0f', token)
    if ttl == '0' then
      redis.call('SET', key, text)
    else
      redis.call('SET', key, text, 'PX', ttl)
    end
    return token
  end
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
