-- Pieces for scripts that know of the line: those who wait for a plain lock, in the order in which
-- they came. A paragraph is a piece.
--
-- LINE  a sorted set of owners, by when they came, us
-- ASKS  a hash of what each has asked last: 'NUMBER GRANT UNTIL SCATTERED'. NUMBER is random, and anew
--       with each ask. A grant lasts for GRANT ms. UNTIL is how long the owner is believed to wait, ms.
--       SCATTERED is 1 if those who listen may do so at any node of a cluster. Besides, see turn.
--
-- Neither is declared as a key. While a cluster moves a slot, a call of several keys is refused if one
-- of them is missing, and a line mostly is. Where Redis takes no line there is none: a lock is as good
-- without it, and its waiters listen where Redisson's do.
--
-- A grant is the late answer to an ask. Its message carries the ask's number. So who reads it knows
-- that the lock was granted after that ask was sent, and reckons the deadline from there.

local LINE = string.find(KEYS[1], '{', 1, true) and ':' .. KEYS[1] or ':{' .. KEYS[1] .. '}'
local ASKS = 'holdfast_asks' .. LINE
LINE = 'holdfast_line' .. LINE

-- The first FIRST ask OFTEN, the others SELDOM, later the more they are, ms: all together some
-- hundred times a second. LIVES is how long a line stands in which nobody asks.
local FIRST, OFTEN, SELDOM, SPREAD, LIVES = 8, 1000, 10000, 12, 120000

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
-- from line: LINE
local function ask_of(owner)
  local ask = redis.pcall('HGET', ASKS, owner)
  return string.match(type(ask) == 'string' and ask or '', '^(%S+) (%d+) (%d+) (%d)$')
end

-- tidy leaves nothing behind when nobody stands in line.
-- from line: LINE
local function tidy()
  if redis.pcall('EXISTS', LINE) == 0 then
    redis.pcall('DEL', ASKS)
  end
end

-- grant gives the lock, which is free, to the first in line who listens, and returns who that is; nil if
-- there is none. me, if it is an owner, is answered, and needs no message. MOST are dropped who do not
-- listen. A message may reach whom this node does not count, such as one who listens at a replica. So
-- what is granted is not taken back, and nobody is told who is not to have it.
-- from common: publish
-- from line: LINE, ask_of, channel_of, listeners
local MOST = 32
local function grant(me)
  for _ = 1, MOST do
    local first = redis.pcall('ZPOPMIN', LINE)
    local owner = not first.err and first[1]
    if not owner then
      return nil
    end
    local number, lease, lives, scattered = ask_of(owner)
    redis.pcall('HDEL', ASKS, owner)
    if owner == me then
      return me
    elseif number and at - lives <= 0 then
      local channel = channel_of(owner)
      if scattered == '1' and ARGV[3] == 'PUBLISH' or listeners(channel) ~= 0 then
        if redis.pcall('HSET', KEYS[1], owner, '1') ~= 1 then
          return nil -- a cluster is moving the lock, and has not moved the line
        end
        redis.pcall('PEXPIRE', KEYS[1], lease)
        publish(number, channel)
        return owner
      end
    end
  end
end

-- tell has the first in line ask after so many ms.
-- from common: publish
-- from line: LINE, ask_of, channel_of
local function tell(after)
  local first = redis.pcall('ZRANGE', LINE, 0, 0)
  local owner = not first.err and first[1]
  local number = owner and ask_of(owner)
  if number then
    publish(number .. ' ' .. after, channel_of(owner))
  end
end

-- turn is about those who wait and do not stand in line: Redisson's, and whoever may not. From time
-- to time the lock is left to them. It says when that is next, how long after it the one after that,
-- and until when the lock is left to them now, ms. set_turn notes that.
-- from line: LINE
local EARLIEST, LATEST, LEFT = 10, 1000, 3
local function turn()
  local found = redis.pcall('HGET', ASKS, 'turn')
  local due, pause, left = string.match(type(found) == 'string' and found or '', '^(%d+) (%d+) (%d+)$')
  return (due or 0) + 0, (pause or EARLIEST) + 0, (left or 0) + 0
end
local function set_turn(pause, left)
  redis.pcall('HSET', ASKS, 'turn', string.format('%.0f %.0f %.0f', at + pause, pause, left))
end

-- pass_on has somebody have the lock, which is free: the first in line, or others, who listen where
-- Redisson does. It says how many of these have heard, and whether it was granted to one in line. So
-- many of ours listen there, too.
-- from common: publish
-- from line: grant, tell, turn, listeners, tidy
local function pass_on(ours)
  local left = 0
  local others = ARGV[2] ~= '' and (listeners(ARGV[2]) or 0) - (ours or 0) or 0
  if others > 0 then
    local due, pause
    due, pause, left = turn()
    if at >= due and at >= left then
      left = at + LEFT
      set_turn(pause, left)
    end
  end
  local granted = false
  if at < left then
    tell(left - at)
  else
    granted = grant()
  end
  tidy()
  if granted then
    return 0, true
  end
  return publish(ARGV[4]) - (ours or 0), false
end
