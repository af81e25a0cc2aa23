-- Stands before every script.
--
-- Scripts take the time from Redis, never from a caller. A call may lie in a
-- socket buffer long after its caller has given it up, so each call says until
-- when it may still take effect; a later one does nothing and says so.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function too_late(at, limit)
  return limit ~= '0' and at > tonumber(limit)
end

-- held says how often the owner holds the lock, in the text of the wire.
local function held(key, owner)
  return redis.call('HGET', key, owner) or '0'
end
