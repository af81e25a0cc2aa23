-- Pieces for the fair lock.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the line, a list of owners; the first one is next
-- KEYS[3]  until when Redisson believes in each of them, ms: a sorted set
-- KEYS[4]  until when holdfast believes in each of its own: a sorted set
-- ASKS     what each of holdfast's own has asked last: see line.lua. It is not declared. NUMBER is followed by an
--          underscore and the time at which the waiter joined the line, ms, for people. A grant carries both; readers drop the time
-- ARGV[2]  what the channels of the owners begin with
--
-- The line and KEYS[3] are Redisson's, and Java and Go stand in them together.
--
-- Grants. Whoever gives the lock back grants it to the first in line, if that one has asked with a
-- number and listens, as the waiters of a plain lock do: see line.lua. Who does not is told, on a channel
-- of its own, as Redisson's are; the lock is free then, and kept for it by the line. So what line.lua
-- says of others beside the line does not matter here: they stand in it. Nor is anybody passed over who
-- does not listen: it keeps its place for as long as it is believed in. And who finds the lock free does
-- not grant it to another one, but tells it: the dead cost less then, one behind the other.
--
-- Whom to believe. A waiter of holdfast asks every 1.5 s, or, behind the first FIRST, more rarely, so that
-- all together ask some hundred times a second. Each time it is believed for three times as long;
-- KEYS[4] has that, and Java does not know it. So a dead one is out of the line in seconds, if few wait.
--
-- None is dropped because the server was stopped, or failed over, and nobody could
-- be heard. If one who stands in line asks, and nobody who stands
-- there has asked for 2.5 s, the server was not to be reached, or none of them lives.
-- Then all of them have 5 s more, a grace, to ask again: one whose request was lost
-- does so within 3 s. Two members of KEYS[4]
-- keep that: when one who stands in line last asked, and when the grace ends. No
-- owner is called so. 2.5 s and the 1.5 s between two tries are less than the
-- belief: whoever asks more often than every 2.5 s is not dropped, and prolongs no grace.
--
-- One who does not stand there, because it does not wait or asks for the first time,
-- begins no grace. It takes a free lock past those who have not been heard of for
-- as long as they are believed in, and leaves them where they are. So how soon it gets the lock does not
-- depend on how often somebody asks.
--
-- A clock that is set back is noticed, since the last ask seems to lie ahead. Whoever was believed in
-- is for as long as before.
--
-- Redisson's waiters say nothing while they wait. One of them is dropped when its
-- score has passed, but only if the lock is free and it stood first already: so far
-- it could not have had the lock. While the lock is held, and when one comes to
-- stand first, its score is raised instead.
--
-- Scores. Java drops the first in line when its score has passed by Java's own
-- clock, so a waiter of holdfast writes 30 s from now each time it asks, or more if it asks rarely: it is
-- safe from clocks that are 27 s ahead, and Java is rid of a dead one after 30 s.
-- A Java waiter that is let in, or gives up, takes its wait time (5 minutes, if it
-- was given none) off every score behind it. So for each Java waiter that may
-- stand ahead so much is added; and since every try writes the score anew, a grant
-- here has nothing to take off. A Java waiter computes its score from the last
-- one's: behind waiters of holdfast that is at least its own wait time and 30 s.
--
-- How long keys live. KEYS[4] has a time to live, since nothing is lost with it
-- that the scores do not say less precisely. The line and KEYS[3] have the same one
-- while only waiters of holdfast stand there: twice as long as a waiter goes on, by
-- default, when Redis does not answer. They have none, as with Redisson, while
-- others stand there, which would not renew it.
--
-- How much a call does. It looks at LIMIT waiters at most, and drops no more. If
-- they are all dead, and others live, who waits is told to ask again at once.

local PAUSE, BELIEF, SILENCE, GRACE = 1500, 4500, 2500, 5000
local SCORE, JAVA_WAIT, LIMIT = 30000, 300000, 200

-- free says whether nobody holds the lock. Each script that needs left says so before.
local free = redis.call('EXISTS', KEYS[1]) == 0

-- seen is when one who stands in line last asked; silent, whether nobody could be heard since; back, by how
-- many ms at least the clock was set back since.
-- from fair: SILENCE
local seen = tonumber(redis.call('ZSCORE', KEYS[4], 'seen') or 0)
local silent, back = at - seen > SILENCE or seen > at, math.max(seen - at, 0)

-- grace_ends says until when those are believed who have not been heard of for long.
-- from fair: GRACE, silent
local grace
local function grace_ends()
  if not grace and silent then
    grace = at + GRACE
  elseif not grace then
    grace = math.min(tonumber(redis.call('ZSCORE', KEYS[4], 'grace') or 0), at + GRACE)
  end
  return grace
end

-- left says for how long a waiter is still believed in, ms; 0: not any more. And
-- whether it is one of Redisson's. heard leaves the grace out.
-- from fair: BELIEF, grace_ends, back
-- from line: LIVES
local function left(waiter, heard)
  local believed = redis.call('ZSCORE', KEYS[4], waiter)
  if believed then
    local ms = believed - at
    if ms > 0 then
      ms = math.max(ms - back, 0)
    end
    if not heard and ms <= 0 and ms > -LIVES then
      ms = math.max(ms, grace_ends() - at)
    end
    return math.max(ms, 0), false
  end
  local score = redis.call('ZSCORE', KEYS[3], waiter)
  if not score then
    return 0, false -- nothing would ever end the belief in it
  end
  return math.max(score - at, free and 0 or BELIEF), true
end

-- anyone says who of holdfast's waiters, other than me, was heard of; or false.
-- from fair: back
local function anyone(me)
  local from = string.format('(%.0f', at + back)
  for _, waiter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], from, '+inf', 'LIMIT', 0, 4)) do
    if waiter ~= me and waiter ~= 'seen' and waiter ~= 'grace' then
      return waiter
    end
  end
  return false
end

-- java says how many of Redisson's waiters stand in line, by the two sets.
local function java()
  return redis.call('ZCARD', KEYS[3]) - math.max(redis.call('ZCARD', KEYS[4]) - 2, 0)
end

-- survey looks from a place in line on, and changes nothing: the first place of
-- one who is believed in, and who that is, or false. It does not doubt me, nor one
-- of Redisson's who would come to stand first only now. If it has to stop before it
-- knows, it says so, and names anyone who lives. heard is as in left.
-- from fair: LIMIT, left, anyone, java
local function survey(place, me, heard)
  for i = place, place + LIMIT - 1 do
    local waiter = redis.call('LINDEX', KEYS[2], i)
    if not waiter or waiter == me then
      return i, waiter, false
    end
    local ms, theirs = left(waiter, heard)
    if ms > 0 or i > 0 and theirs then
      return i, waiter, false
    end
  end
  local other = anyone(me)
  return place + LIMIT, other, other or java() > 0
end

-- tell wakes a waiter: where its client hears of grants, if it has asked with a number, else on a channel of
-- its own.
-- from common: publish
-- from line: ask_of, channel_of, ask_again
local function tell(waiter, payload)
  local number = waiter and ask_of(waiter)
  if number then
    publish(ask_again(number, 0), channel_of(waiter))
  elseif waiter then
    publish(payload, ARGV[2] .. ':' .. waiter)
  end
end

-- grant gives the lock, which is free, to a waiter that listens, and says whether it does.
-- from common: publish
-- from line: listening
local function grant(waiter)
  local number, lease, channel = listening(waiter)
  if not number or redis.pcall('HSET', KEYS[1], waiter, '1') ~= 1 then
    return false -- or memory is full, or a cluster is moving the lock
  end
  redis.pcall('PEXPIRE', KEYS[1], lease)
  publish(number, channel)
  return true
end

-- pass_on has a waiter have the lock, which is free, or tells it. It returns the first place of one who is
-- believed in then, and who that is, as survey does.
-- from fair: grant, tell, survey
local function pass_on(gone, head, more, payload)
  if head and not more and grant(head) then
    return survey(gone + 1)
  end
  tell(head, payload)
  return gone, head, more
end

-- bury takes so many off the head of the line.
-- from line: LINE
local function bury(gone)
  if gone > 0 then
    local dead = redis.call('LRANGE', KEYS[2], 0, gone - 1)
    redis.call('LTRIM', KEYS[2], gone, -1)
    redis.call('ZREM', KEYS[3], unpack(dead))
    redis.call('ZREM', KEYS[4], unpack(dead))
    redis.pcall('HDEL', ASKS, unpack(dead))
  end
end

-- remove_waiter takes one out of the line, wherever it stands.
-- from line: LINE
local function remove_waiter(waiter)
  redis.pcall('HDEL', ASKS, waiter)
  local known = redis.call('ZREM', KEYS[3], waiter) + redis.call('ZREM', KEYS[4], waiter)
  return redis.call('LREM', KEYS[2], 0, waiter) + known > 0
end

-- clear ends a line in which nobody stands who is believed in.
-- from line: LINE
local function clear()
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
  redis.pcall('UNLINK', ASKS)
end

-- spare keeps Java from dropping one of its own who could not have had the lock.
-- from common: ours
-- from fair: SCORE
local function spare(waiter)
  if not waiter or ours(waiter) then
    return
  end
  local score = not redis.call('ZSCORE', KEYS[4], waiter) and redis.call('ZSCORE', KEYS[3], waiter)
  if score and tonumber(score) < at + SCORE then
    redis.call('ZADD', KEYS[3], at + SCORE, waiter)
  end
end
