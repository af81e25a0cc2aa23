-- Stands before every script. What every call begins with:
--
-- ARGV[1]  server time, ms, after which this call does nothing; 0: never
-- ARGV[2]  the channel that changes are announced on; empty: on none. It is no
--          key: a cluster that is moving the slot would look for it, in vain
-- ARGV[3]  the command that messages are published with
--
-- and what every reply begins with: a code, and the server's time, ms. The code
-- -1 means too late.
--
-- Scripts take the time from Redis, never from a caller. A call may lie in a
-- socket buffer long after its caller has given it up, so each call says until
-- when it may still take effect.
local clock = redis.call('TIME')
local at = clock[1] * 1000 + math.floor(clock[2] / 1000)
if ARGV[1] ~= '0' and at > tonumber(ARGV[1]) then
  return {-1, at}
end

-- What a script replies whose key is of the right type, but of another kind.
local OTHER_KIND = 'WRONGTYPE the key is another kind of lock'

-- untold is why Redis refused to publish something, or nil. Scripts that give
-- something back, or make it available, reply it last.
local untold

-- publish announces something. A refusal does not stop the script: a lock that is
-- not given back is worse than one of which nobody is told. Subscribers cannot act
-- before the script has ended. The channel is mostly ARGV[2].
local function publish(payload, channel)
  channel = channel or ARGV[2]
  if channel ~= '' then
    local reply = redis.pcall(ARGV[3], channel, payload)
    untold = type(reply) == 'table' and reply.err or untold
  end
end

-- held says how often the owner holds the lock, in the text of the wire.
local function held(key, owner)
  return redis.call('HGET', key, owner) or '0'
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

-- lease_error refuses what is no lease, before anything is written.
local function lease_error(ttl)
  if not string.match(ttl, '^%d+$') or #ttl > 12 or ttl == '0' then
    return redis.error_reply('ERR lease is not a number of milliseconds: ' .. ttl)
  end
end

-- take_token writes and returns the fencing token after the one at key; 0 if there is
-- no key, for no token is wanted. It follows time, so that it grows even if Redis has
-- lost the last ones. A ttl of 0 keeps it for ever. It writes nothing if it returns an
-- error.
local function take_token(key, ttl)
  if not key then
    return 0
  end
  local last = tonumber(redis.call('GET', key) or '0')
  local token = math.max(last + 1, clock[1] * 1000000 + clock[2])
  if token >= 2 ^ 53 then
    return nil, redis.error_reply('ERR the fencing token is out of bounds: ' .. key)
  end
  local text = string.format('%.0f', token)
  if ttl == '0' then
    redis.call('SET', key, text)
  else
    redis.call('SET', key, text, 'PX', ttl)
  end
  return token
end
