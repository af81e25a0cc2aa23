-- Stands before every script of the fair lock, behind common.lua.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the line, a list of owners; the first one is next
-- KEYS[3]  until when Redisson believes in each of them, ms: a sorted set
-- KEYS[4]  until when holdfast believes in each of its own: a sorted set
-- ARGV[2]  what the channels of the owners begin with
--
-- The line and KEYS[3] are Redisson's, and Java and Go stand in them together.
--
-- Whom to believe. A waiter of holdfast asks every 3 s, and each time it is
-- believed for 10 s more; KEYS[4] has that, and Java does not know it. So a dead
-- one is out of the line in seconds, and a live one is never dropped. What counts
-- is not time as such but time during which the server was seen to answer: the
-- line's own clock, which no gap between two calls moves by more than 4 s. A
-- server that was stopped, or failed over, finds the line as it was.
--
-- Redisson's waiters say nothing while they wait. One of them is dropped when its
-- score has passed, but only if the lock is free and it stood first already: so far
-- it could not have had the lock. While the lock is held, and when one comes to
-- stand first, its score is raised instead.
--
-- Scores. Java drops the first in line when its score has passed by Java's own
-- clock, so a waiter of holdfast writes 30 s from now each time it asks: it is
-- safe from clocks that are 27 s ahead, and Java is rid of a dead one after 30 s.
-- A Java waiter that is let in, or gives up, takes its wait time (5 minutes, if it
-- was given none) off every score behind it. So for each Java waiter that may
-- stand ahead so much is added; and since every try writes the score anew, a grant
-- here has nothing to take off. A Java waiter computes its score from the last
-- one's: behind waiters of holdfast that is at least its own wait time and 30 s.
--
-- How long keys live. KEYS[4] has a time to live, since nothing is lost with it
-- that the scores do not say less precisely. The line and KEYS[3] have one while
-- only waiters of holdfast stand there, so that dead ones leave nothing for ever,
-- and none, as with Redisson, while others do, which would not renew it.
local BELIEF, STEP, SCORE, JAVA_WAIT = 10000, 4000, 30000, 300000
local HEARTBEATS_LIVE, LINE_LIVES = 120000, 3600000

-- tick is the line's own clock. Two members of KEYS[4] keep it: what it said when
-- it was last looked at, and when that was. No owner is called so.
local tick = at
do
  local kept = redis.call('ZMSCORE', KEYS[4], 'clock', 'seen')
  if kept[1] and kept[2] then
    tick = tonumber(kept[1]) + math.min(math.max(at - tonumber(kept[2]), 0), STEP)
  end
end

local free = redis.call('EXISTS', KEYS[1]) == 0

-- left says for how long a waiter is still believed in, ms; 0: not any more.
local function left(waiter)
  local believed = redis.call('ZSCORE', KEYS[4], waiter)
  if believed then
    return math.max(tonumber(believed) - tick, 0)
  end
  local score = redis.call('ZSCORE', KEYS[3], waiter)
  if not score then
    return 0 -- nothing would ever end the belief in it
  end
  return math.max(tonumber(score) - at, free and 0 or BELIEF)
end

-- theirs says whether a waiter is one of Redisson's, and what its score is.
local function theirs(waiter)
  local score = not redis.call('ZSCORE', KEYS[4], waiter) and redis.call('ZSCORE', KEYS[3], waiter)
  return score and tonumber(score)
end

-- survey looks from a place in line on, and changes nothing: the first place of
-- one who is believed in, and who that is, or false. It does not doubt me, nor one
-- of Redisson's who would come to stand first only now.
local function survey(place, me)
  while true do
    local waiter = redis.call('LINDEX', KEYS[2], place)
    if not waiter or waiter == me or left(waiter) > 0 or place > 0 and theirs(waiter) then
      return place, waiter
    end
    place = place + 1
  end
end

-- tell wakes a waiter.
local function tell(waiter, payload)
  if waiter then
    redis.call(ARGV[3], ARGV[2] .. ':' .. waiter, payload)
  end
end

-- bury takes so many off the head of the line.
local function bury(gone)
  for _ = 1, gone do
    local waiter = redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], waiter)
    redis.call('ZREM', KEYS[4], waiter)
  end
end

-- drop takes one out of the line, wherever it stands.
local function drop(waiter)
  local known = redis.call('ZREM', KEYS[3], waiter) + redis.call('ZREM', KEYS[4], waiter)
  return redis.call('LREM', KEYS[2], 0, waiter) + known > 0
end

-- tidy ends every change of the line: it keeps the clock, and nothing of a line
-- in which nobody stands.
local function tidy()
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3], KEYS[4])
  elseif redis.call('EXISTS', KEYS[4]) == 1 then
    redis.call('ZADD', KEYS[4], tick, 'clock', at, 'seen')
  end
end

-- spare keeps Java from dropping one of its own who could not have had the lock.
local function spare(waiter)
  local score = waiter and theirs(waiter)
  if score and score < at + SCORE then
    redis.call('ZADD', KEYS[3], at + SCORE, waiter)
  end
end
