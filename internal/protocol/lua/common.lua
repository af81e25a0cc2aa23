-- Pieces for scripts of all kinds; see assemble in script.go. A paragraph is a piece.

-- What a script replies whose key is of the right type, but of another kind.
local OTHER_KIND = 'WRONGTYPE the key is another kind of lock'

-- other_kind says whether a hash, of which these are the first two fields, is no lock that
-- one owner holds. Every owner's name has a colon in it; `mode` and most fields of other
-- programs have none.
local function other_kind(field, another)
  return another or field and not string.find(field, ':', 1, true)
end

-- ours says whether an owner is one of holdfast's, by the version of its client's UUID.
local function ours(owner)
  return string.sub(owner, 15, 15) == '8'
end

-- untold is why Redis refused to publish something, or nil. Scripts that give
-- something back, or make it available, reply it last.
--
-- publish announces something. A refusal does not stop the script: a lock that is
-- not given back is worse than one of which nobody is told. Subscribers cannot act
-- before the script has ended. The channel is mostly ARGV[2]. It returns how many have heard.
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

-- raise lets a key live for at least so long. What was promised is never
-- shortened.
local function raise(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end

-- even_if_full has Redis take the writes behind it when its memory is full. It
-- refuses the first write of a script if that may need memory, and none after a
-- write that it has taken. So what renews, or gives back, begins with one that needs
-- none and changes nothing: remove is HDEL or ZREM, and nothing is called ''.
local function even_if_full(remove, key)
  redis.call(remove, key, '')
end

-- lease is ARGV[4]. What is no lease is refused before anything is written.
local lease = ARGV[4]
if not string.match(lease, '^[1-9]%d*$') or #lease > 12 then
  return redis.error_reply('ERR lease is not a number of milliseconds: ' .. lease)
end

-- lease_error refuses other arguments in the same way. lease is no function, since every
-- acquire has it.
local function lease_error(ttl)
  if not string.match(ttl, '^[1-9]%d*$') or #ttl > 12 then
    return redis.error_reply('ERR lease is not a number of milliseconds: ' .. ttl)
  end
end

-- take_token writes and returns the fencing token after the one at key. It follows
-- time, so that it grows even if Redis has lost the last ones. A ttl of 0 keeps it for
-- ever. It writes nothing if it returns an error.
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

-- token is a new fencing token if ARGV[8], the time to live of KEYS[2], asks for one.
local token
if (ARGV[8] or '') ~= '' then
  -- from common: take_token
  local wrong
  token, wrong = take_token(KEYS[2], ARGV[8])
  if wrong then
    return wrong
  end
end
