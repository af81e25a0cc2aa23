-- like mutex
--
-- The fair lock: the hash of mutex.lua, and in the place of the waitlist a queue that Java and Go share.
--
-- QUEUE       a list of owners, the next one first. It is Redisson's, as TIMEOUTS is
-- TIMEOUTS    a sorted set: owner -> the time at which a Redisson client drops its entry, ms
-- HEARTBEATS  a sorted set: owner -> the time until which its entry is live, ms; only of holdfast's waiters. Two more members: 'seen' is
--             the time of the last request of a listed waiter, 'grace' the end of the grace period
-- REQUESTS    as in waitlist.lua, and undeclared as there. Behind an ID stand an underscore and the time at which the waiter joined the
--             queue, ms, for people; the grant carries both, and its reader ignores the time
--
-- In an acquire ARGV[10] is '1' if the waiter gets an entry when it is refused, even without a request to record. Nothing is published on the
-- lock's own channel: all waiters are listed, Redisson's too, and receive the release message on a channel of their own.
--
-- Grants. As in the waitlist, a release grants the lock to the head if that has a request and its client is subscribed. What differs: a head
-- that cannot be granted the lock keeps its place for as long as it is live. It is notified, and the lock stays free until it asks. And an
-- acquire that finds the lock free grants it to no other waiter, but notifies the head: several dead waiters in a row cost less then.
--
-- Live entries. holdfast's waiters ask every HEARTBEAT ms, or, behind the first NEAR, at an interval that keeps the total at about 100
-- requests a second. Each request keeps the entry live for three intervals, so a dead waiter is dropped within seconds, if few wait.
--
-- A server that was stopped or failed over drops no waiter. If a listed waiter asks, and none has for SILENCE ms, Redis was unreachable, or no
-- waiter lives. Then all of them get a grace period of GRACE ms to ask again; a waiter whose request was lost does so within 3 s. SILENCE and
-- the 1.5 s between two attempts are less than three intervals: a waiter that asks more often than that is not dropped, and extends no grace
-- period. An acquire without an entry begins none, and may take a free lock past entries that only the grace period keeps live; they stay
-- where they are. So how soon it gets the lock does not depend on how often it asks.
--
-- Redisson's waiters send nothing while they wait. Such an entry is dropped when its score has passed, but only if it is the first and the
-- lock was free already: before that it could not take the lock. While the lock is held, or when it becomes the first, its score is raised.
--
-- Scores. A Redisson client drops the first entry when its score has passed by the JVM's clock. So each request of a holdfast waiter writes a
-- score SCORE ms ahead, or more if it asks rarely: it tolerates clocks that are 27 s ahead, and Redisson drops a dead one after 30 s. A
-- Redisson waiter that gets the lock, or gives up, subtracts its wait time (JAVA_WAIT unless configured) from every score behind it, so that
-- much is added for each Redisson waiter that may be ahead. As each request writes the score anew, a grant to a holdfast waiter subtracts
-- nothing. A Redisson waiter computes its score from the last one: behind a holdfast waiter that is at least its own wait time and 30 s.
--
-- Time to live. While only holdfast's waiters are listed, all keys live for ENTRIES_LIVE ms after a request: twice as long as a waiter goes on
-- without replies by default. With Redisson's, QUEUE and TIMEOUTS do not expire, since those waiters would not extend them.

local HEARTBEAT, SILENCE, GRACE, SCORE, JAVA_WAIT = 1500, 2500, 5000, 30000, 300000

local QUEUE, TIMEOUTS, HEARTBEATS = unpack(KEYS, #KEYS - 2)

-- fast acquire
-- from common: lease
-- from waitlist: REQUESTS
-- from fair: QUEUE, was_free
local some = redis.pcall('EXISTS', KEYS[1], QUEUE, TIMEOUTS, HEARTBEATS, REQUESTS)
local usable, recorded = true, type(some) == 'number' -- if not recorded, nothing is written to REQUESTS: see waitlist.lua
if not recorded then
  some = redis.call('EXISTS', KEYS[1], QUEUE, TIMEOUTS, HEARTBEATS)
end
if some == 0 and ARGV[6] == '0' then
  -- from common: token
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
  redis.call('PEXPIRE', KEYS[1], lease)
  return token and {1, at, token} or at
elseif ARGV[6] ~= '0' and redis.call('ZSCORE', TIMEOUTS, ARGV[5]) and redis.call('HGET', KEYS[1], ARGV[5]) == ARGV[6] then -- left behind
  -- from fair: remove
  remove(ARGV[5])
end

-- fast release
-- from fair: QUEUE, was_free
local free, expired
local found = redis.call('HGET', KEYS[1], ARGV[5])
if ARGV[7] == '0' and found == ARGV[6] then
  free = redis.call('DEL', KEYS[1])
elseif not found then
  -- from kind: idle
  expired = idle() == 1 -- without a release message
end
if free or expired then
  -- from waitlist: busy
  if busy then
    -- from common: publish
    -- from waitlist: grant_room
    grant_room(1)
    if untold and free then
      return {1, at, untold}
    end
  end
  return expired and {0, at} or at
end

-- was_free is set if the head of the queue could have taken the lock before this call; head_left, if the call has removed the head; head_live
-- is how long the entry of the head that a free lock is kept for is live, ms.
local was_free, head_left, head_live = false, false, nil

-- idle returns the room for waiters when a seat leaves that holds nothing.
-- from fair: was_free
local function idle()
  local free = redis.call('EXISTS', KEYS[1]) == 0
  was_free = free and not head_left
  return free and 1 or 0
end

-- busy reports whether there is an entry; queue has the first two.
-- from fair: QUEUE
local queue = redis.pcall('LRANGE', QUEUE, 0, 1)
local usable, busy = true, queue[1] ~= nil

-- silent reports whether all waiters may have been unable to reach Redis since seen; back is the least time by which the clock was set back
-- since then, ms.
-- from fair: HEARTBEAT, QUEUE
local seen = tonumber(redis.call('ZSCORE', HEARTBEATS, 'seen') or 0)
local silent, back, grace_end = at - seen > SILENCE or seen > at, math.max(seen - at, 0), nil

-- grace_ends returns the time until which entries without a recent request are live.
-- from fair: HEARTBEAT, silent
local function grace_ends()
  if not grace_end and silent then
    grace_end = at + GRACE
  elseif not grace_end then
    grace_end = math.min(tonumber(redis.call('ZSCORE', HEARTBEATS, 'grace') or 0), at + GRACE)
  end
  return grace_end
end

-- live_for returns how long an entry stays live, ms, and whether it is Redisson's. If heard is true, the grace period does not count.
-- from waitlist: NEAR
-- from fair: HEARTBEAT, QUEUE, was_free, grace_ends, back
local function live_for(seat, heard)
  local live = redis.call('ZSCORE', HEARTBEATS, seat)
  if live then
    local ms = live - at
    if ms > 0 then
      ms = math.max(ms - back, 0)
    end
    if not heard and ms <= 0 and ms > -ENTRIES_LIVE then
      ms = math.max(ms, grace_ends() - at)
    end
    return math.max(ms, 0), false
  end
  local score = redis.call('ZSCORE', TIMEOUTS, seat)
  if not score then
    return 0, false -- nothing would ever end its time
  end
  return math.max(score - at, was_free and 0 or 3 * HEARTBEAT), true
end

-- live_waiter returns an owner other than me that has asked recently; false if there is none.
-- from fair: QUEUE, back
local function live_waiter(me)
  local from = string.format('(%.0f', at + back)
  for _, seat in ipairs(redis.call('ZRANGEBYSCORE', HEARTBEATS, from, '+inf', 'LIMIT', 0, 4)) do
    if seat ~= me and seat ~= 'seen' and seat ~= 'grace' then
      return seat
    end
  end
  return false
end

-- first_live returns the position and the owner, or false, of the first live entry from a position on. The entry of me is live, and so is
-- Redisson's if it would become the first only now. If it finds none among MOST_DEAD entries, but others are live, the third result is true,
-- and the owner is any of them that is holdfast's. heard: see live_for.
-- from fair: QUEUE, live_for, live_waiter
local MOST_DEAD = 200
local function first_live(position, me, heard)
  for i = position, position + MOST_DEAD - 1 do
    local seat = redis.call('LINDEX', QUEUE, i)
    if not seat or seat == me then
      return i, seat, false
    end
    local ms, foreign = live_for(seat, heard)
    if ms > 0 or i > 0 and foreign then
      return i, seat, false
    end
  end
  local other = live_waiter(me)
  return position + MOST_DEAD, other, other or redis.call('ZCARD', TIMEOUTS) > math.max(redis.call('ZCARD', HEARTBEATS) - 2, 0)
end

-- notify makes a waiter, if there is one, ask after some ms: by a retry message if it has a request, otherwise by Redisson's release message.
-- from common: publish
-- from waitlist: request_of, grant_channel, retry_message
-- from kind: CHANNEL
local function notify(seat, after)
  local id = seat and request_of(seat)
  if id then
    publish(retry_message(id, after), grant_channel(seat))
  elseif seat then
    publish('0', CHANNEL .. SUFFIX .. ':' .. seat)
  end
end

-- send_retry makes the head of the queue ask after some ms.
-- from fair: first_live, notify
local function send_retry(after)
  local _, head = first_live(0)
  notify(head, after)
end

-- grant grants the lock, which is free, to a waiter, and reports whether it has.
-- from common: publish
-- from waitlist: grantable
-- from kind: take
local function grant(seat)
  local id, length, _, channel = grantable(seat)
  if not id or take(seat, 0, '1', length) then
    return false -- also if memory is full, or a cluster is moving the lock
  end
  publish(id, channel)
  return true
end

-- clear deletes the queue.
-- from waitlist: REQUESTS
-- from fair: QUEUE
local function clear()
  redis.call('UNLINK', QUEUE, TIMEOUTS, HEARTBEATS)
  redis.pcall('UNLINK', REQUESTS)
end

-- remove removes a seat's entry, and returns whether there was one.
-- from waitlist: REQUESTS
-- from fair: QUEUE
local function remove(seat)
  redis.pcall('HDEL', REQUESTS, seat)
  local known = redis.call('ZREM', TIMEOUTS, seat) + redis.call('ZREM', HEARTBEATS, seat)
  return redis.call('LREM', QUEUE, 1, seat) + known > 0
end

-- trim removes the first entries of the queue, which are dead. The rest is as first_live has found it: without a live entry the queue is
-- deleted. spare is set if head has had no chance to take the lock yet, so that no Redisson client drops it.
-- from common: ours
-- from waitlist: REQUESTS
-- from fair: HEARTBEAT, QUEUE, clear
local function trim(dead, head, more, spare)
  if dead > 0 then
    local seats = redis.call('LRANGE', QUEUE, 0, dead - 1)
    redis.call('LTRIM', QUEUE, dead, -1)
    redis.call('ZREM', TIMEOUTS, unpack(seats))
    redis.call('ZREM', HEARTBEATS, unpack(seats))
    redis.pcall('HDEL', REQUESTS, unpack(seats))
  end
  if not head and not more then
    clear()
  elseif head and (spare or dead > 0) and not ours(head) and not redis.call('ZSCORE', HEARTBEATS, head) then
    local score = redis.call('ZSCORE', TIMEOUTS, head)
    if score and score - at < SCORE then
      redis.call('ZADD', TIMEOUTS, at + SCORE, head)
    end
  end
end

-- remove_entry does so if the owner of the seat waits no longer, and removes dead entries before the first live one.
-- from fair: QUEUE, was_free, first_live, remove, trim
local function remove_entry(seat)
  head_left = redis.call('LINDEX', QUEUE, 0) == seat
  local listed = remove(seat)
  trim(first_live(0))
  return listed
end

-- claim decides whether a seat takes the free lock: it does if no live entry is before its own. The results are those of grant_room. A seat
-- without an entry ignores the grace period. If the lock is another waiter's, that waiter is notified, since it may have missed the
-- message, and head_live is how long its entry is live, ms; 0: ask at once, and more dead entries are removed.
-- from fair: QUEUE, was_free, first_live, live_for, notify, remove, trim
local function claim(left, me, wanted)
  was_free = true
  local dead, head, more = first_live(0, me)
  local mine = not more and (head or me) == me
  if not mine and not (wanted == '1' and redis.call('ZSCORE', HEARTBEATS, me)) then
    local _, other, beyond = first_live(dead, me, true)
    mine = not beyond and (other or me) == me
  end
  if not mine then
    head_live = more and 0 or live_for(head)
    if not more then
      notify(head, 0)
    end
  elseif head == me then
    dead, head, more = first_live(dead + 1, me)
  else
    remove(me) -- left behind
  end
  trim(dead, head, more, mine)
  return left, 0, mine, not mine
end

-- grant_room grants the lock, which is free, to the head of the queue, or notifies it; for me see claim. It returns the room that is left;
-- the number of grants; whether me takes the lock; and whether me has to wait.
local function grant_room(left, me, wanted)
  if me then
    -- from fair: claim
    return claim(left, me, wanted)
  end
  -- from waitlist: busy
  -- from fair: QUEUE, was_free, grant, remove
  local granted = busy and grant(queue[1]) and 1 or 0
  if granted == 1 then
    remove(queue[1])
    was_free = false -- for the next one
    if not queue[2] then
      -- from fair: clear
      clear()
      return left - 1, 1
    end
    local live = redis.call('ZSCORE', HEARTBEATS, queue[2])
    if live and live - at > 0 then
      return left - 1, 1
    end
  end
  -- from fair: first_live, notify, trim
  local dead, head, more = first_live(0)
  if granted == 0 and head and not more and grant(head) then
    granted, dead, head, more = 1, first_live(dead + 1)
  elseif granted == 0 then
    notify(head, 0)
  end
  trim(dead, head, more, granted == 1 or not was_free)
  return left - granted, granted
end

-- yielded returns nil: unlisted waiters do not subscribe to a channel of the lock.
local function yielded(unlisted)
end

-- maybe_yield returns 0, for the same reason.
local function maybe_yield(entries)
  return 0
end

-- entries returns the live waiters among the first thousand.
-- from kind: idle
-- from fair: QUEUE, live_for
local function entries()
  idle()
  local live = {}
  for _, seat in ipairs(redis.call('LRANGE', QUEUE, 0, 999)) do
    if live_for(seat, true) > 0 then
      live[#live + 1] = seat
    end
  end
  return live
end

-- place keeps a seat's entry, or appends one, and returns its position, the length of the queue, and whether the entry is new. known is set
-- if a set has it, too: usually they agree, but what Redis has evicted it has not evicted from both. The first LOOK entries are searched.
-- from fair: QUEUE, silent
local LOOK = 1000
local function place(seat, known, scores)
  if known or scores == 0 then
    local position = redis.call('LPOS', QUEUE, seat, 'MAXLEN', LOOK)
    local length = redis.call('LLEN', QUEUE)
    if position or known and length > LOOK then
      return position or length, length, false
    end
  end
  local length = redis.call('RPUSH', QUEUE, seat)
  if length == 1 then -- no other waiter is live
    if some > 1 then -- the keys of a queue that was lost
      -- from fair: clear
      clear()
      redis.call('RPUSH', QUEUE, seat)
    end
    silent, back, grace_end = true, 0, at
  end
  return length - 1, length, true
end

-- write_times keeps an entry live until a time, and the others no longer than they were if the clock was set back. It also writes the time at
-- which Redisson drops the entry, and extends the keys. foreign is the number of Redisson's waiters.
-- from waitlist: REQUESTS, NEAR
-- from fair: HEARTBEAT, QUEUE, silent
local function write_times(seat, live, position, interval, foreign)
  if back > 0 then
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', HEARTBEATS, string.format('(%.0f', at), '+inf')) do
      redis.call('ZADD', HEARTBEATS, math.max(redis.call('ZSCORE', HEARTBEATS, other) - back, at), other)
    end
  end
  if silent then
    -- from fair: grace_ends
    redis.call('ZADD', HEARTBEATS, live, seat, at, 'seen', grace_ends(), 'grace')
  else
    redis.call('ZADD', HEARTBEATS, live, seat, at, 'seen')
  end
  redis.call('ZADD', TIMEOUTS, at + SCORE + interval - HEARTBEAT + JAVA_WAIT * math.min(foreign, position), seat)
  local often = position < NEAR or us % 8 == 0 -- often enough, and cheaper than always
  if foreign > 0 then
    redis.call('PERSIST', QUEUE)
    redis.call('PERSIST', TIMEOUTS)
  elseif often then
    redis.call('PEXPIRE', QUEUE, ENTRIES_LIVE)
    redis.call('PEXPIRE', TIMEOUTS, ENTRIES_LIVE)
  end
  if often then
    redis.call('PEXPIRE', HEARTBEATS, ENTRIES_LIVE)
    redis.pcall('PEXPIRE', REQUESTS, ENTRIES_LIVE)
  end
end

-- write_request records a request, and returns 1 if the seat had none, or 0; nil if it is not recorded, as no message could reach the waiter.
-- from waitlist: REQUESTS, SPELLING
local function write_request(seat, live, request, joined)
  local id, grant, scattered = string.match(request, '^(%S+) (%d+) (%d)$')
  if not (recorded and id) then
    redis.pcall('HDEL', REQUESTS, seat)
    return nil
  end
  local before = not joined and redis.pcall('HGET', REQUESTS, seat)
  local since = string.match(type(before) == 'string' and before or '', '^%w+_(%d+) ') or string.format('%.0f', at)
  local new = redis.pcall('HSET', REQUESTS, seat, string.format('%s_%s %s %.0f %s%s', id, since, grant, live, scattered, SPELLING))
  return type(new) == 'number' and new or nil
end

-- remove_dead removes the entries before the first live one, and heartbeats of waiters that Redisson has dropped.
-- from fair: QUEUE, first_live, trim
local function remove_dead(me)
  local dead, head, more = first_live(0, me)
  trim(dead, head, more, true)
  for _, seat in ipairs(redis.call('ZRANGEBYSCORE', HEARTBEATS, '-inf', at, 'LIMIT', 0, MOST_DEAD)) do
    if seat ~= 'seen' and seat ~= 'grace' and not redis.call('ZSCORE', TIMEOUTS, seat) then
      redis.call('ZREM', HEARTBEATS, seat)
      redis.pcall('HDEL', REQUESTS, seat)
    end
  end
end

-- refusal returns the reply to a seat that is refused, as in waitlist.lua. position is -1 without a recorded request. listens is 1 if the
-- waiter subscribes to its own channel as well, because a Redisson client will publish its release there.
-- from waitlist: NEAR
-- from kind: is_foreign
-- from fair: HEARTBEAT, QUEUE, was_free, place, write_request, write_times
local function refusal(allowed, holder, hint, seat, request, what, blocker)
  local pttl, listed = redis.call('PTTL', KEYS[1]), what == '1'
  local known = some > 1 and (redis.call('ZSCORE', TIMEOUTS, seat) or redis.call('ZSCORE', HEARTBEATS, seat))
  if holder and some > 1 and (known or not listed) then -- a new waiter leaves it to others
    -- from fair: remove_dead
    remove_dead(seat)
  end
  hint = head_live or pttl >= 0 and pttl or 3 * HEARTBEAT
  if not listed then
    return {0, at, pttl, holder or '', hint, -1, 0, 0}
  end
  local scores = redis.call('ZCARD', TIMEOUTS)
  local position, length, joined = place(seat, known, scores)
  local interval, near = HEARTBEAT, position < NEAR
  if not near and SPACING * length > HEARTBEAT then
    local live = redis.pcall('ZCOUNT', HEARTBEATS, at + 1, '+inf')
    interval = math.max(HEARTBEAT, SPACING * (tonumber(live) or length))
  end
  local foreign = length > 1 and math.max(scores - math.max(redis.call('ZCARD', HEARTBEATS) - 2, 0), 0) or 0 -- Redisson's
  local live = at + 3 * interval
  local new = write_request(seat, live, request, joined)
  write_times(seat, live, position, interval, foreign)
  if not near and holder then
    hint = known and interval or us % interval -- so that they do not ask together
  elseif pttl >= 0 then
    hint = hint + position * 50
  end
  local listens = new and (foreign > 0 or is_foreign(holder)) and 1 or 0
  return {0, at, pttl, holder or '', math.min(hint, interval), new and position or -1, new or 0, listens}
end
