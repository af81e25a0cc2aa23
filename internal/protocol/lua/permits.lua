-- Pieces for the permits with a lease.
--
-- KEYS[1]  how many permits are available, a number
-- KEYS[2]  the permits that are held, a sorted set of id -> ms when it expires
--
-- Permits that have expired are available again, in every script.
--
-- Who waits stands in the line of line.lua, as an owner of its own: permits have none, and one caller may
-- wait for several at once. The ids of the permits that it wants, 16 bytes each, are a second field of the
-- asks, OWNER and IDS. Its client has chosen them, and no other acquire has them. So a grant writes what its
-- acquire would write; an acquire that asks again finds its permits held; and a leave gives back just these,
-- however late it comes.
--
-- What could go wrong, and why it does not (R1 ... are rows of the tests, see test/line/permits_line_test.go):
--
-- R1   a waiter leaves while it is granted: leave names the ids.
-- R2   a message is lost: the next ask finds the permits held.
-- R3   who is granted them is stopped: they expire with the grant. The first of the line asks when the next
--      permit expires, and whoever asks serves all.
-- R4   it wakes later: its deadline, 0.99 of the grant after its ask was sent, has passed.
-- R5   a semaphore may end before the grant does: then the message says to ask, and the answer says when.
-- R6   several permits of one hold are renewed as any.
-- R7   Redisson waits: one permit, not all of them, is left to it at a time. It has had it when none is available.
-- R8   Redisson holds: nobody says whose a permit is, but ids of ours are known by their looks. Of many
--      only the first and the last to expire are looked at.
-- R9   permits become available otherwise (added, set, forced): the script that does it serves, too. One
--      that only finds some expired does not: the first of the line is about to ask.
-- R10  the dead are dropped, MOST a script. The first is told to ask if there are more to serve.
-- R12  memory is full: what gives back begins with a write that needs none.
-- R14  no right to the line: all is as without it, and what is reserved (semaphore_next.lua) holds for both.
-- R16  a try does not overtake whom others wait behind.
-- big  who wants many holds up those behind it, as long as semaphore_next.lua says. One line for all would let one that
--      wants more than it gets hold up the others for ever.
--
-- R11, R13, R15, R17 to R19 are as a plain lock's.

-- free is how many are available. If that is no number, nothing is done.
-- from calls: integer
local free, wrong = integer(redis.call('GET', KEYS[1]))
if wrong then
  return wrong
end

-- whole writes an integer without an exponent.
local function whole(n)
  return string.format('%.0f', n)
end

-- lined says that there is a line for this user. There is none either while a cluster moves the slot. In a
-- crowd somebody stands in it, or a permit may be left to others.
-- from line: LINE
local crowd = redis.pcall('EXISTS', LINE, TURN)
local lined = type(crowd) == 'number'
crowd = lined and crowd > 0

-- theirs is for how long from now on one permit is left to others, ms: see turn in line.lua. They have had it
-- if none is available, and have gone if nobody listens any more.
-- from line: turn, set_turn, listeners
-- from permits: free, lined
local theirs = 0
if crowd then
  local _, left = turn()
  theirs = math.max(left - at, 0)
  if theirs > 0 and (free <= 0 or listeners(ARGV[2]) == 0) then
    set_turn(0, at)
    theirs = 0
  end
end

-- announce_available says how many permits are going to be available.
-- from common: publish
-- from permits: whole
local function announce_available(n)
  publish(whole(math.max(0, n)))
end

-- tell_holders has those who hold permits look at what they hold: somebody else has
-- changed it. Holders do not listen on the channel above, which tells them of every
-- permit that comes back.
-- from common: publish
local function tell_holders(channel)
  publish('0', channel)
end

-- give_back makes permits available that have been taken off the held ones. A
-- semaphore that has been deleted is not made anew by that.
-- from permits: free, whole
local function give_back(n)
  if n > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    free = redis.call('INCRBY', KEYS[1], whole(n))
  end
end

-- expired is how many permits have expired. They are available again.
-- from permits: free, announce_available, give_back
local expired = redis.call('ZCOUNT', KEYS[2], 0, at)
if expired > 0 then
  announce_available(free + expired)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, at)
  give_back(expired)
end

-- stored is what stands at KEYS[1]; store has it be free.
-- from permits: free, whole, expired
local stored = free
local function store()
  if free ~= stored then
    redis.call('INCRBY', KEYS[1], whole(free - stored))
    stored = free
  end
end

-- IDS stands behind an owner in the name of a field: see above. MOST_IDS is how many one asks for at most, as MaxPermits in Go:
-- what somebody else has written there, or calls with, must not keep the server busy.
-- from line: LINE
local IDS, MOST_IDS = ' ids', 4096

-- foreign says whether one of Redisson's holds a permit: ids of ours have a UUID's version, 8, and an h behind the
-- first eight bytes. Of many the first and the last SEEN to expire are looked at.
local SEEN = 50
local function foreign(held)
  for from = 0, held > SEEN and -SEEN or 0, -SEEN do
    for _, id in ipairs(redis.call('ZRANGE', KEYS[2], from, from + SEEN - 1)) do
      local version, _, mark = string.byte(id, 7, 9)
      if mark ~= 104 or version < 128 or version > 143 then
        return true
      end
    end
  end
end

-- serve grants what is available to those who stand in line, in their order. So many stay available. It returns
-- whether me, an owner that wants so many, is one of them: it needs no message. And it returns whether those who
-- do not stand there may have what is left.
--
-- Who wants more than are available keeps those behind it waiting, unless that are more than there are at all, or
-- others are let by: see semaphore_next.lua. MOST are looked at.
-- from common: publish
-- from line: ask_again, listening, tell, step_out
-- from semaphore_next: reservation, stand_down, stretch
-- from permits: free, lined, whole, store, IDS, MOST_IDS
local MOST = 64
local function serve(stay, me, wants, my_id)
  if free <= stay then
    return false, true
  end
  local key = 'holdfast_next' .. string.sub(LINE, 14)
  local who, kept, since = reservation(key)
  local let_by = who and since > 0 and at >= since + stretch
  local place, mine, moved, ttl = 0, false, false, nil
  local only = false -- the one for whom permits are kept, if it stands further behind: the clock may have been set back
  for _ = 1, MOST do
    if free <= stay then
      return mine, true
    end
    local owner = redis.pcall('ZRANGE', LINE, place, place)[1]
    if not owner then
      return mine, not only
    end
    local ids, id, n = '', my_id, wants
    if owner ~= me then
      ids = redis.pcall('HGET', ASKS, owner .. IDS)
      ids = type(ids) == 'string' and #ids <= 16 * MOST_IDS and #ids % 16 == 0 and ids or ''
      id, n = string.sub(ids, 1, 16), #ids / 16
    end
    local out = true
    local stands_back = who and who ~= id and not let_by
    if n > 0 and not (only and stands_back) and free - n >= stay + (stands_back and kept or 0) then
      local number, lease, channel
      if owner == me then
        mine, free = true, free - n
      else
        number, lease, channel = listening(owner)
      end
      if number then
        for i = 1, #ids, 16 do
          local each, expiry = string.sub(ids, i, i + 15), at + lease
          if redis.call('ZADD', KEYS[2], 'NX', whole(expiry), each) == 1 then
            free = free - 1
          elseif tonumber(redis.call('ZSCORE', KEYS[2], each)) < expiry then -- an earlier call of its own has taken it since
            redis.call('ZADD', KEYS[2], whole(expiry), each)
          end
        end
        ttl = ttl or redis.call('PTTL', KEYS[1])
        if ttl >= 0 then
          redis.call('PEXPIRE', KEYS[2], math.max(ttl, 1))
          number = ask_again(number, 0) -- it has to know when the semaphore ends
        end
        publish(number, channel)
      end
    elseif n == 0 or owner ~= me and not listening(owner) then -- it is dead
    elseif let_by or n > free + (mine and wants or 0) + redis.call('ZCARD', KEYS[2]) then
      place, out = place + 1, false
    elseif stands_back and (only or free - n >= stay) then
      only, place, out = true, place + 1, false
    else
      return mine, false
    end
    if out then
      step_out(owner, owner .. IDS)
      moved = true
      if who == id then
        stand_down(key, id)
        who, only, place = nil, false, 0
      end
    end
  end
  if moved then
    tell(0)
  end
  return mine, false
end

-- pass_on makes so many permits more available, or fewer, and has those have them who wait: the first in line,
-- and others, who are told what is left.
-- from common: publish
-- from line: LINE, tell, leave_turn, listeners
-- from permits: free, lined, theirs, whole, store, serve
local function pass_on(n)
  free = free + n
  local before = free
  if crowd and free > 0 then
    if theirs == 0 and (listeners(ARGV[2]) or 0) > 0 then
      theirs = math.max(leave_turn(tonumber(redis.pcall('ZCARD', LINE)) or 0), 0)
    end
    serve(theirs > 0 and 1 or 0)
    if theirs > 0 then
      tell(1)
    end
  end
  store()
  if free > 0 or free == before then
    local heard = publish(whole(math.max(0, free)))
    if lined and not crowd and heard > 0 then
      leave_turn(0)
    end
  end
end
