-- Pieces for scripts that know of the line: those who wait for permits, in the order in which they came.
-- Kinds whose operations are shared have waitlist.lua in its place. A paragraph is a piece.
--
-- LINE  a sorted set of owners, by when they came, us
-- ASKS  a hash of what each has asked last: 'NUMBER GRANT UNTIL SCATTERED'. NUMBER is random, and anew
--       with each ask. A grant lasts for GRANT ms. UNTIL is until when the owner is believed to wait, ms.
--       SCATTERED is 1 on a cluster, where those who listen may do so at any node unless messages are sharded.
-- TURN  a string: when the lock is left to others, see turn
--
-- None is declared as a key. While a cluster moves a slot, a call of several keys is refused if one
-- of them is missing, and a line mostly is. Where Redis takes no line there is none: a lock is as good
-- without it, and its waiters listen where Redisson's do. So whoever would write one of them asks
-- before for two: what is written where the slot goes to, while it still stands where it comes from,
-- would end the move.
--
-- A grant is the late answer to an ask. Its message carries the ask's number. So who reads it knows
-- that the lock was granted after that ask was sent, and reckons the deadline from there.
--
-- The number is a secret of the waiter and the keys until then: anyone else who may publish could grant the lock with it.
-- So every other message carries its first half only, which names the ask and grants nothing.

local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS, TURN = 'holdfast_asks' .. LINE, 'holdfast_turn' .. LINE
LINE = 'holdfast_line' .. LINE

-- SPELT stands behind an ask for a name with braces. Locks named x and {x} share these keys, and who waits for the one is not
-- granted the other: it is nobody there.
local SPELT = string.find(KEYS[1], '{', 1, true) and '{' or ''

-- The first FIRST ask OFTEN, the others as well, or SPREAD times as many ms as stand there, if that is
-- more: all together some hundred times a second. So whoever dies with the lock is found out by any of
-- them. LIVES is how long a line stands in which nobody asks.
local FIRST, OFTEN, SPREAD, LIVES = 8, 1000, 12, 120000

-- channel_of is where the client of an owner listens.
-- from line: LINE
local function channel_of(owner)
  return (ARGV[3] == 'SPUBLISH' and LINE or 'holdfast_granted') .. ':' .. string.match(owner, '^[^:]*')
end

-- listeners says how many listen at this node; nil if Redis does not say.
local function listeners(channel)
  local counted = redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counted[2]
end

-- ask_of takes apart what an owner has asked last.
-- from line: LINE, SPELT
local function ask_of(owner)
  local ask = redis.pcall('HGET', ASKS, owner)
  return string.match(type(ask) == 'string' and ask or '', '^(%S+) (%d+) (%d+) (%d)' .. SPELT .. '$')
end

-- listening returns the number of an owner's ask, for how long a grant lasts, and where to say so, if it is
-- believed to wait, and its client listens; else nil. A message may reach whom this node does not count,
-- such as one who listens at a replica. So it is looked for before anything is granted, what is granted is
-- not taken back, and nobody is told who is not to have it.
-- from line: ask_of, channel_of, listeners
local function listening(owner)
  local number, lease, lives, scattered = ask_of(owner)
  if number and at - lives <= 0 then
    local channel = channel_of(owner)
    if scattered == '1' and ARGV[3] == 'PUBLISH' or listeners(channel) ~= 0 then
      return number, lease, channel
    end
  end
end

-- ask_again is the message that has an owner ask again after so many ms: see above. HALF is as long in Go.
local HALF = 13
local function ask_again(number, after)
  return string.sub(number, 1, HALF) .. ' ' .. after
end

-- tell has the first in line who listens ask after so many ms.
-- from common: publish
-- from line: LINE, FIRST, ask_of, channel_of, ask_again
local function tell(after)
  for _, owner in ipairs(redis.pcall('ZRANGE', LINE, 0, FIRST - 1)) do
    local number = ask_of(owner)
    if number and publish(ask_again(number, after), channel_of(owner)) > 0 then
      return
    end
  end
end

-- turn is about others, who wait and do not stand in line: Redisson's, and whoever may not. They listen
-- where Redisson does. From time to time the lock is left to them: until left, ms, nobody who stands in
-- line takes it. The next time is pause ms after that at the earliest. What lies further ahead than
-- MOST_LEFT was said before the server's clock was set back.
-- from line: LINE
local MOST_LEFT = 32
local function turn()
  local found = redis.pcall('GET', TURN)
  local pause, left = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+)$')
  if not left or left - at > MOST_LEFT then
    return 0, 0
  end
  return pause + 0, left + 0
end

-- set_turn notes that, for as long as it matters to those who ask often.
-- from line: LINE
local function set_turn(pause, left)
  local lives = left - at + pause + 100
  redis.pcall('SET', TURN, string.format('%.0f %.0f', pause, left), 'PX', string.format('%.0f', lives))
end

-- leave_turn leaves the lock, which is free, to others, if it is their turn. It returns for how long from
-- now on it is left to them, ms.
--
-- Nobody knows how many they are: all threads of one JVM listen once. So they count as one who stands in
-- line. If n stand there, a release is theirs with a chance of 1 in n+1, and in any case LATEST ms after
-- they have had the lock.
--
-- Nor does anybody know whether they take it: one who listens may be stopped. So each turn is noted with a
-- longer pause behind it, up to LONGEST ms. It is taken back when they are seen to hold the lock, or
-- nobody listens any more: see refuse and left_to. They may also be slow, or far away. So the longer the pause,
-- the longer the turn, from LEFT to MOST_LEFT ms. One who never takes it costs 3 in 100 ms at last.
-- from line: turn, set_turn
local LEFT, LATEST, LONGEST = 3, 10, 1000
local function leave_turn(standing)
  local pause, left = turn()
  local due = left + pause
  if at >= due and (us % (standing + 1) == 0 or at >= due + LATEST) then
    left = at + math.min(LEFT + math.floor(pause / 4), MOST_LEFT)
    set_turn(math.min(2 * pause + 1, LONGEST), left)
  end
  return left - at
end

-- take_place has me keep its place in line, or take the last one. It returns the place, from 0 on, nil if Redis does not
-- take it; 1 if it is new, else 0; and every how many ms to ask there.
-- from line: LINE, FIRST
local function take_place(me)
  local new = redis.pcall('ZADD', LINE, 'NX', string.format('%.0f', us), me)
  local length = type(new) == 'number' and tonumber(redis.pcall('ZCARD', LINE))
  local place = length and (new == 1 and length - 1 or tonumber(redis.pcall('ZRANK', LINE, me)))
  return place, new, place and (place < FIRST and OFTEN or math.max(OFTEN, SPREAD * length))
end

-- note_ask writes what me has asked, and other fields of its, and says whether Redis has taken that.
-- from line: LINE, FIRST, SPELT
local function note_ask(me, place, often, number, lease, scattered, ...)
  local ask = string.format('%s %s %.0f %s%s', number, lease, at + 3 * often, scattered, SPELT)
  local noted = redis.pcall('HSET', ASKS, me, ask, ...)
  if place == 0 or us % 8 == 0 then -- often enough, and cheaper than always
    redis.pcall('PEXPIRE', LINE, LIVES)
    redis.pcall('PEXPIRE', ASKS, LIVES)
  end
  return type(noted) == 'number'
end

-- step_out takes me out of the line, with other fields of its, and says whether it stood there.
-- from line: LINE
local function step_out(me, ...)
  redis.pcall('HDEL', ASKS, me, ...)
  return redis.pcall('ZREM', LINE, me) == 1
end
