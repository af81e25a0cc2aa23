-- Pieces for scripts that use the waitlist of a lock: its waiters, in order of arrival. A paragraph is a piece.
--
-- A lock has room, and a seat, the field of the lock that a waiter will hold, needs some of it. The kind defines both: room, size, take,
-- announce, lives, is_foreign, details, SHARE, STAGGER and CHANNEL are pieces of its file.
--
-- WAITLIST  a sorted set: seat -> arrival, us. An entry with a place in front, which is before all others, has AHEAD less
-- REQUESTS  a hash: seat -> its last acquire request, 'ID GRANT UNTIL SCATTERED WHAT'. ID is random, a new one for each request. A grant
--           lasts for GRANT ms. The entry is live until UNTIL, ms. SCATTERED is 1 on a cluster, where a client may be subscribed at any
--           node unless messages are sharded. WHAT, if the kind needs it, says what the waiter wants. The
--           field ' since' notes since when a large request has held others back: see held_back
-- YIELD     a string: the yield window, in which the lock is left to unlisted waiters; see yield_window
--
-- None is declared as a key. While a cluster moves a slot, it refuses a call of several keys if one of them is missing, and the
-- waitlist usually is. Where Redis refuses these keys there is no waitlist: the lock works without it, and waiters subscribe to the
-- channel of Redisson's waiters. So a script reads two of the keys in one command before it writes one of them. A key that is written on
-- the slot's new node while the old node still has it would end the move.
--
-- A grant is the late reply to an acquire request, whose ID its message carries. So its reader knows that the lock was granted after
-- that request was sent, and computes the deadline from there.
--
-- Until then the ID is a secret of the waiter and these keys: any other client that may publish could grant the lock with it. So
-- every other message carries the first half only, which names the request and grants nothing.

local SUFFIX = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local WAITLIST, YIELD = 'holdfast_waitlist' .. SUFFIX, 'holdfast_yield' .. SUFFIX

-- from waitlist: SUFFIX
local REQUESTS = 'holdfast_requests' .. SUFFIX

-- SPELLING marks the request for a name with braces, after SCATTERED. Locks named x and {x} share these keys; a waiter for one has no
-- request for the other, and is not granted it.
local SPELLING = string.find(KEYS[1], '{', 1, true) and '{' or ''

-- The first NEAR waiters send a request every INTERVAL ms. The interval of the others is SPACING ms times the number of entries, if that
-- is longer: about 100 requests a second in total. So any waiter notices a dead holder. ENTRIES_LIVE is the time to live of a waitlist
-- without requests, ms.
local NEAR, INTERVAL, SPACING, ENTRIES_LIVE = 8, 1000, 12, 120000

-- usable reports whether Redis permits this script the waitlist; busy, whether there is an entry or a yield window.
-- from waitlist: WAITLIST
local busy = redis.pcall('EXISTS', WAITLIST, YIELD)
local usable = type(busy) == 'number'
busy = usable and busy > 0

-- grant_channel returns the channel for messages to the client of a seat.
-- from waitlist: WAITLIST
local function grant_channel(seat)
  return (ARGV[3] == 'SPUBLISH' and WAITLIST or 'holdfast_granted') .. ':' .. string.match(seat, '^[^:]*')
end

-- receivers returns the number of subscribers at this node; nil if Redis does not say.
local function receivers(channel)
  local counted = redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counted[2]
end

-- request_of returns the parts of a seat's last acquire request; nil if it has none.
-- from waitlist: REQUESTS, SPELLING
local function request_of(seat)
  local request = redis.pcall('HGET', REQUESTS, seat)
  local id, grant, live, scattered, spelling, what =
    string.match(type(request) == 'string' and request or '', '^(%S+) (%d+) (%d+) (%d)({?) ?(.*)$')
  if spelling == SPELLING then
    return id, grant, live, scattered, what
  end
end

-- grantable returns nil unless a seat's entry is live and its client is subscribed. If so, it returns the ID of the request, the length
-- of a grant, what the waiter wants, and the channel for the message. A message may reach a client that this node does not count, such as a
-- subscriber of a replica. So the clients are counted before the lock is granted, a grant is not taken back, and a grant message goes
-- only to the grantee.
-- from waitlist: request_of, grant_channel, receivers
local function grantable(seat)
  local id, grant, live, scattered, what = request_of(seat)
  if id and at - live <= 0 then
    local channel = grant_channel(seat)
    if scattered == '1' and ARGV[3] == 'PUBLISH' or receivers(channel) ~= 0 then
      return id, grant, what, channel
    end
  end
end

-- remove_entry removes a seat's entry, and returns whether there was one.
-- from waitlist: WAITLIST, REQUESTS
local function remove_entry(seat)
  redis.pcall('HDEL', REQUESTS, seat)
  return redis.pcall('ZREM', WAITLIST, seat) == 1
end

-- grant_room grants the lock to waiters, in order, until there is no room for the next waiter. It returns the room that is left; the
-- number of grants; whether me, a seat that wants this and needs no message, is next; and the seat of the waiter that needs more room, if
-- there is one. A waiter of size nil is passed over; size 0 means that it holds the lock already. Entries that are stale, or whose client is
-- not subscribed, are removed. At most MOST_ENTRIES are examined; if there are more, the first one is to ask again.
--
-- If what is granted ends before the grant does, the message makes the waiter ask again: the reply says when.
-- from common: publish
-- from waitlist: WAITLIST, grantable, remove_entry, retry_message
-- from kind: size, take
local MOST_ENTRIES = 64
local function grant_room(left, me, wanted)
  local granted, mine, position = 0, false, 0
  for examined = 0, MOST_ENTRIES do
    local seat = left > 0 and redis.pcall('ZRANGE', WAITLIST, position, position)[1]
    if not seat then
      break
    elseif examined == MOST_ENTRIES then
      -- from waitlist: send_retry
      send_retry(0)
      break
    end
    local id, grant, what, channel
    if seat == me then
      what = wanted
    elseif (size(seat) or 0) <= left then
      id, grant, what, channel = grantable(seat)
    else
      return left, granted, mine, seat
    end
    local need = what and size(seat, what, left)
    if need and need > left then
      return left, granted, mine, seat
    elseif what and not need then
      position = position + 1
    else
      if id and need > 0 then
        local wrong, ends = take(seat, 0, '1', grant, what)
        if wrong then
          break -- a cluster is moving the lock, and has not moved the waitlist
        end
        granted = granted + 1
        publish(ends and retry_message(id, 0) or id, channel)
      end
      mine, left = mine or seat == me, left - (need or 0)
      remove_entry(seat)
    end
  end
  return left, granted, mine
end

-- entries returns the first thousand entries.
-- from waitlist: WAITLIST
local function entries()
  local seats = redis.pcall('ZRANGE', WAITLIST, 0, 999)
  return seats.err and {} or seats
end

-- retry_message returns the message that makes a waiter ask again after some ms. Go has the same NAME_LENGTH.
local NAME_LENGTH = 13
local function retry_message(id, after)
  return string.sub(id, 1, NAME_LENGTH) .. ' ' .. after
end

-- send_retry makes the first waiter that receives the message ask again after some ms.
-- from common: publish
-- from waitlist: WAITLIST, NEAR, request_of, grant_channel, retry_message
local function send_retry(after)
  for _, seat in ipairs(redis.pcall('ZRANGE', WAITLIST, 0, NEAR - 1)) do
    local id = request_of(seat)
    if id and publish(retry_message(id, after), grant_channel(seat)) > 0 then
      return
    end
  end
end

-- yield_window returns the pause, ms; the end of the yield window; and its length, ms. Unlisted waiters, which are Redisson's and clients
-- without rights to the waitlist, subscribe to the lock's own channel. From time to time the lock is left to them: no listed waiter takes
-- it before the end of the window, and the next window begins no earlier than the pause after that. An end more than LONGEST_WINDOW ms
-- ahead was written before the server's clock was set back.
-- from waitlist: WAITLIST
local SHORTEST_WINDOW, LONGEST_WINDOW = 3, 32
local function yield_window()
  local found = redis.pcall('GET', YIELD)
  local pause, ends, length = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+) ?(%d*)$')
  if not ends or ends - at > LONGEST_WINDOW then
    return 0, 0, SHORTEST_WINDOW
  end
  return pause + 0, ends + 0, math.min(tonumber(length) or SHORTEST_WINDOW, LONGEST_WINDOW)
end

-- set_yield writes a window, with a time to live after which it does not matter.
-- from waitlist: WAITLIST
local function set_yield(pause, ends, length)
  local lives = ends - at + pause + 100
  redis.pcall('SET', YIELD, string.format('%.0f %.0f %.0f', pause, ends, length), 'PX', string.format('%.0f', lives))
end

-- maybe_yield leaves the lock, which is free, to unlisted waiters if that is due. It returns the rest of the window, ms.
--
-- Redis does not know how many they are: all threads of one JVM subscribe once. So they count as one waiter. With n entries a release
-- is theirs with a chance of 1 in n+1, and always OVERDUE ms after the last window and its pause.
--
-- Nor does Redis know whether they take the lock: a subscriber may be stopped. So the pause after each window is longer than the last
-- one, up to LONGEST_PAUSE ms. The pause ends when an unlisted waiter is seen to hold the lock, or when none is subscribed: see refusal
-- and yielded. They may also be slow, or far away. So the longer the pause, the longer the window. A length that they have used stays:
-- it is as long as they need. A waiter that never uses its window ends up costing 3 % of the time.
-- from waitlist: yield_window, set_yield
local OVERDUE, LONGEST_PAUSE = 30, 1000
local function maybe_yield(entries)
  local pause, ends, length = yield_window()
  local due = ends + pause
  if at >= due and (us % (entries + 1) == 0 or at >= due + OVERDUE) then
    length = math.min(math.max(length, SHORTEST_WINDOW + math.floor(pause / 4)), LONGEST_WINDOW)
    ends = at + length
    set_yield(math.min(2 * pause + 1, LONGEST_PAUSE), ends, length)
  end
  return ends - at
end

-- offer gives the room of a lock to its waiters, listed or unlisted. It yields only what may be enough for unlisted waiters. It returns
-- the number of unlisted waiters that received the release message, without own subscribers of this client; and 1 if an entry was granted
-- the lock, or 0.
-- from common: publish
-- from waitlist: WAITLIST, receivers, grant_room
-- from kind: announce, SHARE
local function offer(free, own)
  local yields = free >= SHARE and ARGV[2] ~= '' and (receivers(ARGV[2]) or 0) - own > 0
  if yields then
    -- from waitlist: maybe_yield
    yields = maybe_yield(tonumber(redis.pcall('ZCARD', WAITLIST)) or 0) > 0
  end
  local share = yields and SHARE or 0
  local left, granted = grant_room(free - share)
  if yields then
    -- from waitlist: send_retry
    send_retry(1)
  end
  left = left + share
  return left > 0 and announce(left) - own or 0, math.min(granted, 1)
end

-- received is the number of receivers of the release message, which is published here: as announce does it, but without a function.
-- failed is the error if Redis refuses it, or nil.
local received, failed = 0, nil
if ARGV[2] ~= '' then
  received = redis.pcall(ARGV[3], ARGV[2], ARGV[4])
  failed = type(received) == 'table' and received.err or nil
end

-- yielded returns the time, ms, that a caller waits for unlisted waiters to take the free lock; nil if there is no yield window. For an
-- unlisted waiter the second result is true, and the window ends.
-- from waitlist: SUFFIX, receivers, yield_window, set_yield
-- from kind: CHANNEL
local function yielded(unlisted)
  local _, ends, length = yield_window()
  if at >= ends then
    return nil
  elseif receivers(CHANNEL .. SUFFIX) == 0 then -- they took the lock, or have gone
    redis.pcall('DEL', YIELD)
  elseif unlisted then
    set_yield(0, at, length) -- otherwise the next release would be theirs again
    return nil, true
  else
    return (ends - at + 1) / 2 -- they may release the lock before the window ends
  end
end

-- add_entry keeps a seat's entry, or adds one: the last, or with a place in front. It writes the seat's request. It returns the position,
-- from 0; 1 if the entry is new, or 0; and the interval of requests, ms. It returns nil if Redis refuses to write, since no message could
-- reach the waiter then.
-- from waitlist: WAITLIST, REQUESTS, NEAR, SPELLING
local AHEAD = 2 ^ 52
local function add_entry(seat, id, grant, scattered, front, what)
  local new = redis.pcall('ZADD', WAITLIST, 'NX', string.format('%.0f', front and us - AHEAD or us), seat)
  local length = type(new) == 'number' and tonumber(redis.pcall('ZCARD', WAITLIST))
  local position = length and (new == 1 and not front and length - 1 or tonumber(redis.pcall('ZRANK', WAITLIST, seat)))
  if not position then
    return nil
  end
  local often = position < NEAR and INTERVAL or math.max(INTERVAL, SPACING * length)
  local request = string.format('%s %s %.0f %s%s', id, grant, at + 3 * often, scattered, SPELLING)
  local written = redis.pcall('HSET', REQUESTS, seat, what == '' and request or request .. ' ' .. what)
  if position == 0 or us % 8 == 0 then -- often enough, and cheaper than always
    redis.pcall('PEXPIRE', WAITLIST, ENTRIES_LIVE)
    redis.pcall('PEXPIRE', REQUESTS, ENTRIES_LIVE)
  end
  if type(written) == 'number' then
    return position, new, often
  end
end

-- held_back returns the seat of the waiter that holds others back which there is room for, and for how long it has done so, ms. After
-- PATIENCE ms it lets others by, for as long.
-- from waitlist: REQUESTS
local PATIENCE = 10000
local function held_back()
  local noted = redis.pcall('HGET', REQUESTS, ' since')
  local since, seat = string.match(type(noted) == 'string' and noted or '', '^(%d+) (.*)$')
  local age = since and at - since
  if age and age >= 0 and age < 2 * PATIENCE and redis.pcall('HGET', REQUESTS, seat) then
    return seat, age
  end
end

-- hold_back notes that a waiter holds others back, unless one is noted.
-- from waitlist: REQUESTS, held_back
local function hold_back(seat)
  if not held_back() then
    redis.pcall('HSET', REQUESTS, ' since', string.format('%.0f ', at) .. seat)
  end
end

-- refusal returns the reply to a seat that is refused: {0, now, pttl, holder, hint, position, new, listens, ...}. The holder is empty, and
-- pttl -2, during a yield window. hint is the latest time of the next request, in ms from now; below 0: the lock does not expire.
-- position is -1 without an entry; new is 1 if the entry is. listens is 1 if the waiter subscribes to the lock's own channel as well,
-- because a Redisson client will publish its release there. Behind that stand the details of the kind; blocker is the waiter that alone is
-- in the way of the seat, if there is one.
-- from waitlist: NEAR, yield_window, set_yield, add_entry
-- from kind: STAGGER, lives, is_foreign, details
local function refusal(allowed, holder, hint, seat, request, what, blocker)
  local pttl, theirs = lives(), is_foreign(holder)
  if allowed and theirs and not hint then
    local pause, _, length = yield_window()
    if pause > 0 then -- an unlisted waiter has used its window
      set_yield(0, at, length)
    end
  end
  local id, grant, scattered, front = string.match(request, '^(%S+) (%d+) (%d)(%+?)$')
  local position, new, often
  if allowed and id then
    position, new, often = add_entry(seat, id, grant, scattered, front == '+', what)
  end
  if position then
    if position < NEAR and pttl >= 0 then
      hint = math.min(hint or often, pttl + position * STAGGER)
    elseif new == 1 and not hint then
      hint = us % often -- so that they do not ask together
    end
    hint = math.min(hint or often, often)
  end
  local listens = theirs and position and position < NEAR and 1 or 0
  hint = hint or pttl == -2 and INTERVAL or pttl
  return {0, at, pttl, holder or '', hint, position or -1, new or 0, listens, details(blocker)}
end
