-- The plain lock: a hash at KEYS[1] with one field, the owner, and its count. A seat is an owner; the lock has room for one.

-- fast acquire
-- from common: lease
-- from waitlist: WAITLIST
local some = redis.pcall('EXISTS', KEYS[1], WAITLIST, YIELD)
local usable = type(some) == 'number'
if not usable then
  some = redis.call('EXISTS', KEYS[1])
end
if some == 0 and ARGV[6] == '0' then
  -- from common: token
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
  redis.call('PEXPIRE', KEYS[1], lease)
  return token and {1, at, token} or at
end

-- fast release
local free
if ARGV[7] == '0' and redis.call('HGET', KEYS[1], ARGV[5]) == ARGV[6] then
  free = redis.call('DEL', KEYS[1])
end

-- SHARE is the room that unlisted waiters get in a yield window.
local SHARE = 1

-- STAGGER is the time, ms, between the requests that the first waiters send when the lock expires.
local STAGGER = 50

-- CHANNEL begins the name of the lock's own channel. An acquire has no ARGV[2]: it publishes nothing there, and is the most frequent call.
local CHANNEL = 'redisson_lock__channel'

-- STRIDE is the number of arguments of a renewal.
local STRIDE = 2

-- count returns a seat's count: 0 if it does not hold the lock, or if another program has written a value that is no count.
local function count(seat)
  local found = redis.call('HGET', KEYS[1], seat)
  return found and string.match(found, '^[1-9]%d*$') and #found < 16 and found + 0 or 0
end

-- room returns the room for a seat; a holder; whether the seat may overtake waiters; and a reply that ends the call. Every owner has a
-- colon in its name; most fields of other programs have none.
-- from common: OTHER_KIND
local function room(seat, what)
  local held = redis.call('HKEYS', KEYS[1])
  if held[2] or held[1] and not string.find(held[1], ':', 1, true) then
    return 0, nil, false, redis.error_reply(OTHER_KIND)
  end
  return held[1] and 0 or 1, held[1], false
end

-- size returns the room that a seat needs.
local function size(seat, what, left)
  return 1
end

-- take raises a seat's count from a number to a text, and returns the error if Redis refuses; a second result would say when the lock ends.
local function take(seat, from, to, ttl, what)
  local wrong = redis.pcall('HSET', KEYS[1], seat, to)
  if type(wrong) == 'table' then
    return wrong
  elseif from == 0 then
    redis.pcall('PEXPIRE', KEYS[1], ttl)
  else
    -- from common: raise
    raise(KEYS[1], ttl)
  end
end

-- keep lowers a seat's count to a text.
local function keep(seat, have, to)
  redis.call('HSET', KEYS[1], seat, to)
end

-- drop releases the lock of seats, which are given with their counts. It returns the room that this makes for waiters; and if that is 0,
-- whether to publish the release message all the same, because the lock may end earlier than waiters were told.
local function drop(seats)
  redis.call('DEL', KEYS[1])
  return 1
end

-- idle returns the room for waiters when a seat leaves that holds nothing.
local function idle()
  return redis.call('EXISTS', KEYS[1]) == 0 and 1 or 0
end

-- replaceable returns an error if a seat cannot be replaced.
-- from common: OTHER_KIND
local function replaceable(seat)
  return redis.call('HKEYS', KEYS[1])[2] and redis.error_reply(OTHER_KIND)
end

-- replace gives the lock of an old seat to a new one, which has a count of 1 then, and had this count before.
local function replace(old, new, ttl, had)
  redis.call('HSET', KEYS[1], new, '1')
  redis.call('HDEL', KEYS[1], old)
  if had == 0 then
    redis.call('PEXPIRE', KEYS[1], ttl) -- the only holder knows of no longer lease
  else
    -- from common: raise
    raise(KEYS[1], ttl)
  end
end

-- has_placeholder reports whether MinHold keeps the lock: its owner is a placeholder.
local function has_placeholder()
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.find(field, ':-', 1, true) then
      return true
    end
  end
end

-- announce publishes the release message for unlisted waiters, and returns the number of receivers.
-- from common: publish
local function announce(left)
  return publish(ARGV[4])
end

-- lives returns the time to live of the lock, ms.
local function lives()
  return redis.call('PTTL', KEYS[1])
end

-- details returns what else a refusal says: nothing.
local function details(blocker)
end

-- is_foreign reports whether a holder is a Redisson client.
-- from common: ours
local function is_foreign(holder)
  return holder and not ours(holder)
end

-- stay extends a lock that a seat holds; a ttl of 0 changes nothing. It returns the seat's count, and the number of the lock's further
-- keys in the call, or nil. A key that another program has overwritten is not held, and must not fail the other renewals of the call.
-- from common: raise
local function stay(key, seat, ttl, what)
  local found = redis.pcall('HGET', key, seat)
  local n = type(found) == 'string' and tonumber(found) or 0
  if not (n > 0 and n < 2 ^ 53) then
    return 0
  end
  if ttl ~= '0' then
    raise(key, ttl)
  end
  return n
end

-- holders returns owner, mode, count and time to live of each holder; or nil and an error.
-- from common: OTHER_KIND, other_kind
local function holders()
  local found = redis.call('HGETALL', KEYS[1])
  if other_kind(found[1], found[3]) then
    return nil, redis.error_reply(OTHER_KIND)
  end
  return found[1] and {found[1], '', found[2], string.format('%.0f', redis.call('PTTL', KEYS[1]))} or {}
end
