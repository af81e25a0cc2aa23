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
local function raise(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end
local reply = {1, at}
for i, key in ipairs(KEYS) do
  local count = redis.pcall('HGET', key, ARGV[2 * i + 2])
  if type(count) ~= 'string' then
    count = 0
  end
  count = tonumber(count) or 0
  if not (count > 0 and count < 2 ^ 53) then
    count = 0
  end
  if count > 0 and ARGV[2 * i + 3] ~= '0' then
    raise(key, ARGV[2 * i + 3])
  end
  reply[i + 2] = count
end
return reply
