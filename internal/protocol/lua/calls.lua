-- Pieces for operations that have no owner: each call has a random id, which is
-- kept for a while where it has had its effect. So asking twice is asking once
-- here, too. The key is our own, and expires.

-- remembers says whether a call has had its effect.
local function remembers(key, id)
  return redis.call('ZSCORE', key, id)
end

-- remember keeps a call for so many ms, and forgets some old ones.
-- from common: raise
local function remember(key, id, keep)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.0f', at), 'LIMIT', 0, 100)
  redis.call('ZADD', key, string.format('%.0f', at + tonumber(keep)), id)
  if #old > 0 then
    redis.call('ZREM', key, unpack(old))
  end
  raise(key, keep)
end

-- rewrite writes that a call is remembered, and changes nothing. Redis 8 and Valkey
-- 8 answer a WAIT for what its connection wrote, so a call that finds its work
-- done must write something to know whether replicas have it.
local function rewrite(key)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), 1))
end

-- integer refuses a value that is none, before anything is written.
local function integer(text)
  local n = tonumber(text or '0')
  if not n or n ~= math.floor(n) or math.abs(n) >= 2 ^ 53 then
    return nil, redis.error_reply('WRONGTYPE value is not an integer or out of range')
  end
  return n
end

-- note_zero writes when a latch came to zero, for those who have waited since
-- before: it may be set anew before they look. They look within seconds.
local function note_zero(key)
  redis.call('SET', key, string.format('%.0f', us), 'PX', 60000)
end
