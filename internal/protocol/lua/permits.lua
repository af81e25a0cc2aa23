-- The permits with a lease. KEYS[1] is the number of available permits; KEYS[2] is a sorted set of the held ones: id -> expiry, ms.
--
-- A seat is a waiter: permits have no owner, and one owner may wait for several at a time. ARGV[10] and the waiter's request have the ids
-- that it wants, 16 bytes each. Its client has chosen them, and no other acquire has them. So a grant writes what the acquire would write; a
-- repeated acquire finds its permits held; and a leave releases just these, however late it comes.
--
-- The lock has room for the available permits, and a seat needs as many as it wants. So a large request holds up those behind it, for
-- PATIENCE ms at a time: see held_back in waitlist.lua. Nothing is reserved for unlisted waiters.
--
-- Permits that have expired are available again, in every script. A script that only finds some expired grants nothing: the first waiters
-- know when the next permit expires, and send a request then.
--
-- available, stored and missing are state that functions share. So a prologue takes them: pieces that a block takes are the block's own.

-- fast acquire
-- from common: lease
-- from waitlist: WAITLIST
-- from kind: MOST_IDS, stored
local some = redis.pcall('EXISTS', WAITLIST, YIELD)
local usable = type(some) == 'number'
if (some == 0 or not usable) and #ARGV[10] == 16 and stored and #stored < 16 and string.match(stored, '^[1-9]%d*$') and
  redis.call('ZADD', KEYS[2], 'NX', at + lease, ARGV[10]) == 1 then
  -- One new permit, and nobody waits. Permits that have expired are not needed.
  redis.call('DECRBY', KEYS[1], '1')
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl >= 0 then -- 0 in its last millisecond
    redis.call('PEXPIRE', KEYS[2], math.max(ttl, 1))
    return ttl - lease < 0 and {1, at, ttl} or at
  end
  return at
end
if #ARGV[10] > 16 * MOST_IDS or #ARGV[10] % 16 ~= 0 then
  return redis.error_reply('ERR these are no ids of permits, or more than one hold can have')
end
-- from kind: available, missing
some = 1 -- see acquire.lua: the rest of the script is needed

-- fast release
-- from waitlist: WAITLIST
local free
local score = #ARGV[10] == 16 and redis.call('ZSCORE', KEYS[2], ARGV[10])
if score and score - at > 0 then
  -- One permit, which has not expired. KEYS[1] counts twice: 2 means that it exists, and that there are no entries.
  local exist = redis.pcall('EXISTS', KEYS[1], KEYS[1], WAITLIST)
  local usable = type(exist) == 'number'
  if not usable then
    exist = redis.call('EXISTS', KEYS[1], KEYS[1])
  end
  local left = exist == 2 and redis.pcall('INCRBY', KEYS[1], '1')
  if type(left) == 'number' then -- otherwise nothing has been done, and the rest of the script finds the reason
    redis.call('ZREM', KEYS[2], ARGV[10])
    ARGV[4] = string.format('%.0f', left > 0 and left or 0)
    -- from waitlist: received, failed
    if usable and left > 0 and not failed and received > 0 then
      -- from waitlist: maybe_yield
      maybe_yield(0)
    end
    return failed and {1, at, 0, 0, failed} or at
  end
end
-- from kind: available

-- SHARE is the room that unlisted waiters get in a yield window: one permit.
local SHARE = 1

-- STAGGER is the time, ms, between the requests that the first waiters send when a permit expires: the first request makes the script grant
-- what is available to all.
local STAGGER = 1

-- CHANNEL begins the name of the lock's own channel.
local CHANNEL = 'redisson_sc'

-- STRIDE is the number of arguments of a renewal.
local STRIDE = 3

-- MOST_IDS is the largest number of permits of one acquire, MaxPermits in Go: neither a caller nor another program that writes a request may
-- keep the server busy.
local MOST_IDS = 4096

-- stored is the text at KEYS[1]; false if there is no semaphore.
local stored = redis.call('GET', KEYS[1])

-- add_available adds to the available permits. A semaphore that has been deleted is not made anew.
-- from kind: stored, available
local function add_available(n)
  if stored then
    available = redis.call('INCRBY', KEYS[1], string.format('%.0f', n))
  end
end

-- available is the number of available permits. If KEYS[1] is no number, nothing is done.
-- from common: publish
-- from calls: integer
-- from kind: stored
local available, invalid = integer(stored)
if invalid then
  return invalid
end
local expired = redis.call('ZCOUNT', KEYS[2], 0, at)
if expired > 0 then
  publish(string.format('%.0f', math.max(0, available + expired)))
  redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, at)
  if stored then
    available = redis.call('INCRBY', KEYS[1], expired)
  end
end

-- tell_holders makes the holders of permits check them: another client has changed some. They do not subscribe to the lock's own channel,
-- where every release is published.
-- from common: publish
local function tell_holders(channel)
  publish('0', channel)
end

-- missing is the number of the caller's permits that are not held, as soon as they have been counted.
local missing

-- count returns 1 if a seat holds its permits, or 0. To release, it is enough to hold one of them.
-- from kind: missing
local function count(seat)
  missing = 0
  for i = 1, #ARGV[10], 16 do
    if not redis.call('ZSCORE', KEYS[2], string.sub(ARGV[10], i, i + 15)) then
      missing = missing + 1
    end
  end
  return (missing == 0 or ARGV[7] == '0' and missing < #ARGV[10] / 16) and 1 or 0
end

-- room returns the room for a seat: the available permits.
-- from kind: available
local function room(seat, what)
  return available, nil, false
end

-- size returns the room that a seat needs. It is nil if the seat holds up nobody: there are not as many permits, or others are let by. It is
-- 0 if another acquire of a waiter, which came late, has taken its permits; or if another program has written the request.
-- from waitlist: held_back
-- from kind: MOST_IDS, available, missing
local function size(seat, what, left)
  if not what then
    return 1
  end
  local n = seat == ARGV[5] and missing
  if not n and (#what % 16 ~= 0 or #what > 16 * MOST_IDS or redis.call('ZSCORE', KEYS[2], string.sub(what, 1, 16))) then
    return 0
  end
  n = n or #what / 16
  if n > left and left > 0 then
    local _, age = held_back()
    if age and age >= PATIENCE or n > available + redis.call('ZCARD', KEYS[2]) then
      return nil
    end
  end
  return n
end

-- take makes a seat hold its permits. It returns the error if Redis refuses; and the time, ms, after which the semaphore and the permits end,
-- if that is before the lease does.
-- from kind: add_available
local function take(seat, from, to, ttl, what)
  local expiry, new = string.format('%.0f', at + ttl), 0
  for i = 1, #what, 16 do
    local id = string.sub(what, i, i + 15)
    local added = redis.pcall('ZADD', KEYS[2], 'NX', expiry, id)
    if type(added) == 'table' then
      return added
    elseif added == 0 and tonumber(redis.call('ZSCORE', KEYS[2], id)) < at + ttl then
      redis.call('ZADD', KEYS[2], expiry, id)
    end
    new = new + added
  end
  add_available(0 - new) -- by 0 as well: Redis 8 and Valkey 8 reply to WAIT for what a connection has written
  local lives = redis.call('PTTL', KEYS[1])
  if lives >= 0 then
    redis.call('PEXPIRE', KEYS[2], math.max(lives, 1))
    return nil, lives - ttl < 0 and lives
  end
end

-- keep lowers a seat's count: never, since permits do not nest.
local function keep(seat, have, to)
end

-- drop releases the permits of the caller's seat, and returns the room for waiters. It sets the payload of the release message.
-- from kind: available, add_available
local function drop(seats)
  local found = 0
  for i = 1, #ARGV[10], 16 do
    found = found + redis.call('ZREM', KEYS[2], string.sub(ARGV[10], i, i + 15))
  end
  add_available(found)
  ARGV[4] = string.format('%.0f', math.max(0, available))
  return available
end

-- idle returns the room for waiters when a seat leaves that holds nothing.
-- from kind: available
local function idle()
  return available
end

-- has_placeholder reports whether MinHold keeps the lock: permits it does not keep.
local function has_placeholder()
end

-- announce publishes the release message for unlisted waiters, and returns the number of receivers.
-- from common: publish
local function announce(left)
  return publish(string.format('%.0f', math.max(0, left)))
end

-- lives returns the time, ms, after which the next permit expires; -1: never.
local function lives()
  local first = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(922337203685477', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and first[2] - at or -1
end

-- details returns what else a refusal says: how many permits are available and how many are held; how many of the available ones stay for
-- blocker, the waiter that alone is in the way of the seat; and 0 if there is no semaphore.
-- from kind: stored, available
local function details(blocker)
  local reserved = 0
  if blocker then
    -- from waitlist: request_of, hold_back
    hold_back(blocker)
    reserved = #(select(5, request_of(blocker)) or '') / 16
  end
  return available, redis.call('ZCARD', KEYS[2]), reserved, stored and 1 or 0
end

-- is_foreign reports whether a Redisson client holds a permit. Our ids have an h behind the first eight bytes, which are those of a UUID of
-- version 8. Of many permits the first and the last SEEN to expire are examined.
local SEEN = 50
local function is_foreign(holder)
  for from = 0, -SEEN, -SEEN do
    local ids = redis.call('ZRANGE', KEYS[2], from, from + SEEN - 1)
    for _, id in ipairs(ids) do
      local version, _, mark = string.byte(id, 7, 9)
      if mark ~= 104 or version < 128 or version > 143 then
        return true
      end
    end
    if #ids < SEEN then
      return false
    end
  end
end

-- stay extends those permits of a seat that it holds, and returns texts: how many these are; the times, ms, after which the first and the
-- last of them expire, -1: never; the time after which the semaphore ends, and they with it, -1: never; and the ids of those that are not
-- held. A ttl of 0 changes nothing. A key that another program has overwritten holds none, and must not fail the other renewals of the call.
-- from common: even_if_full
local NEVER = 922337203685477
local function stay(key, seat, ttl, what)
  local expiry, held, first, last = at + ttl, 0, NEVER, at
  local short, found = {}, {'', '', '', ''}
  for i = 1, #what, 16 do
    local id = string.sub(what, i, i + 15)
    local score = redis.pcall('ZSCORE', key, id)
    score = type(score) == 'string' and tonumber(score) or 0
    if score <= at then
      found[#found + 1] = id
    else
      held = held + 1
      first, last = math.min(first, math.max(score, expiry)), math.max(last, score, expiry)
      short[#short + 1] = score < expiry and id or nil
    end
  end
  if #short > 0 then
    even_if_full('ZREM', key)
  end
  for _, id in ipairs(short) do
    redis.call('ZADD', key, string.format('%.0f', expiry), id)
  end
  for i, n in ipairs({held, first < NEVER and first - at or -1, last < NEVER and last - at or -1, redis.call('PTTL', key)}) do
    found[i] = string.format('%.0f', n)
  end
  return found
end
