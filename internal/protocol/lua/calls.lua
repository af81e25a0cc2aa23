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

-- was_refused says whether a call was refused for good.
local function was_refused(key, id)
  return redis.call('ZSCORE', key, id .. 'refused')
end

-- refuse_call refuses a call. If an earlier send of it was not answered, the last argument says so: then
-- the refusal is kept, so that the earlier one is refused, too, should it arrive yet.
-- from common: even_if_full
local function refuse_call(key, id, keep)
  if ARGV[#ARGV] == 'final' then
    even_if_full('ZREM', key)
    remember(key, id .. 'refused', keep)
  end
  return {0, at}
end

-- rewrite writes that a call is remembered, and changes nothing. Redis 8 and Valkey
-- 8 answer a WAIT for what its connection wrote, so a call that finds its work
-- done must write something to know whether replicas have it.
local function rewrite(key)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), 1))
end

-- integer refuses a value that is none, before anything is written. Lua reads 1e3, 0x10,
-- 007, nan and inf as numbers, and Redis counts with none of them.
local function integer(text)
  text = text or '0'
  local n = tonumber(text) or 2 ^ 53
  if not (math.abs(n) < 2 ^ 53) or type(text) == 'string' and string.format('%.0f', n + 0) ~= text then
    return nil, redis.error_reply('WRONGTYPE value is not an integer or out of range')
  end
  return n
end

-- note_zero writes when a latch came to zero, for those who have waited since
-- before: it may be set anew before they look. They look within seconds.
local function note_zero(key)
  redis.call('SET', key, string.format('%.0f', us), 'PX', 60000)
end
