-- acquire: these permits shall be held for so long.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- KEYS[3]     who waits for how many
-- ARGV[4]     lease, ms
-- ARGV[5]     what the caller does if it is refused. 0: it gives up. 1: it asks again, so as to stand in line. OWNER: it waits
--             outside of the line. OWNER NUMBER GRANT SCATTERED: it stands in line, with this ask (line.lua)
-- ARGV[6...]  the permits' ids; the first one is who waits outside of the line
--
-- now                            they are
-- {1, now, pttl}                 they are, and the semaphore ends before the lease
-- {0, now, pttl, '', again, place, new, listens, free, held, kept, exists}
--                                too few are available, or another one has waited
--                                longer; pttl is when the next one expires, -1:
--                                never; again is when to ask again at the latest;
--                                kept is how many stay for that other one; exists
--                                is 0 if nobody has set how many there are. place, -1 if the
--                                owner stands nowhere, new and listens are as in refuse of
--                                line.lua: those in front listen if Redisson has some of the permits
--
-- The ids make asking twice asking once: those that are held need not be taken.

-- from common: lease
-- from line: LINE
local expiry, available = at + lease, redis.call('GET', KEYS[1]) or ''
if #ARGV == 6 and #available < 16 and string.match(available, '^[1-9]%d*$') then
  local waited = redis.pcall('EXISTS', KEYS[3], LINE, TURN)
  if type(waited) ~= 'number' then -- there is no line for this user
    waited = redis.call('EXISTS', KEYS[3])
  end
  if waited == 0 and redis.call('ZADD', KEYS[2], 'NX', expiry, ARGV[6]) == 1 then
    -- One new permit, and nobody has waited longer. Those that have expired are not
    -- needed; who needs them looks for them.
    redis.call('DECRBY', KEYS[1], '1')
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl >= 0 then -- 0 in its last millisecond
      redis.call('PEXPIRE', KEYS[2], math.max(ttl, 1))
      return at + ttl < expiry and {1, at, ttl} or at
    end
    return at
  end
end

-- from permits: IDS, MOST_IDS
local n = #ARGV - 5
if n > MOST_IDS then
  return redis.error_reply('ERR more permits than one hold can have')
end
-- from line: step_out
-- from permits: free, lined, theirs, expired, whole, store, serve
-- from semaphore_next: reservation, wanted, hold_back, stand_next, stand_down
local me, ask = string.match(ARGV[5], '^(%S+) ?(.*)$')
local number, grant, scattered = string.match(ask, '^(%S+) (%d+) (%d)$') -- one pattern for both would take the fourth power of the length
-- count_missing says how many of its permits are not held, and take_permits has them held. One that comes late, and does not say who it is, may
-- stand in line meanwhile, and be served there like any other.
local function count_missing()
  local missing = 0
  for i = 6, #ARGV do
    if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then
      missing = missing + 1
    end
  end
  return missing
end
local function take_permits()
  for i = 6, #ARGV do
    local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if not score or tonumber(score) < expiry then
      redis.call('ZADD', KEYS[2], whole(expiry), ARGV[i])
    end
  end
end
local missing = count_missing()
local stay = theirs > 0 and 1 or 0
local mine, open = false, true
local leaves = (number or me == '1') and stay or 0 -- else it is one of those to whom something is left
if crowd and missing > 0 then
  if reservation(KEYS[3]) == ARGV[6] and free - missing >= leaves then -- they have been kept for it, in line or not
    mine, free = true, free - missing
    take_permits() -- before it is served in line
    step_out(me, me .. IDS)
    stand_down(KEYS[3], ARGV[6])
    serve(stay)
  else
    mine, open = serve(stay, me, missing, ARGV[6])
    missing = mine and missing or count_missing()
  end
end
local kept, again = wanted(KEYS[3], ARGV[6])
if missing > 0 and not mine and not (open and free - missing >= kept + leaves) then
  if kept > 0 and free >= missing then
    hold_back(KEYS[3])
  end
  local held = redis.call('ZCARD', KEYS[2])
  local pttl = -1
  local first = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(922337203685477', 'WITHSCORES', 'LIMIT', 0, 1)
  if first[2] then
    pttl = tonumber(first[2]) - at
    again = math.min(again, pttl)
  end
  if kept > 0 and free >= kept then
    -- The other one is about to take them, and its lease is not known yet.
    again = math.min(again, 200)
  end
  store()
  local place, new, listens = nil, 0, 0
  if lined and number then
    -- from line: FIRST, take_place, note_ask
    local often
    place, new, often = take_place(me)
    if place then
      if place < FIRST then
        again = again + place -- the first one serves all; the others are about to be it
        -- from permits: foreign
        listens = foreign(held) and 1 or 0
      else
        again = new == 1 and us % often or often -- so that they do not ask together
      end
      if theirs > 0 then
        again = math.min(again, (theirs + 1) / 2) -- others may have had it before it ends
      end
      again = math.min(again, often)
      if not note_ask(me, place, often, number, grant, scattered, me .. IDS, table.concat(ARGV, '', 6)) then
        place = nil -- nobody could be told
      end
    end
  end
  -- One who wants more than there are keeps nobody else waiting. In line it is the first who may, for many permits.
  if place and (place > 0 or n == 1) then
    stand_down(KEYS[3], ARGV[6])
  elseif #me > 1 and n <= free + held then
    if stand_next(KEYS[3], ARGV[6], n) and free - missing >= leaves then
      again = 1 -- from now on they are kept for it, so nobody has them before it has asked
    end
  end
  local exists = redis.call('EXISTS', KEYS[1])
  return {0, at, pttl, '', again, place or -1, new == 1 and 1 or 0, listens, free, held, kept, exists}
end
take_permits()
if not mine then
  free = free - missing
  if crowd and #me > 1 then
    step_out(me, me .. IDS) -- it may stand there though this call has no number
  end
end
if missing > 0 or redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('INCRBY', KEYS[1], whole(free - stored)) -- by 0, too, for WAIT: see rewrite in calls.lua
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl >= 0 then
  redis.call('PEXPIRE', KEYS[2], math.max(ttl, 1))
end
stand_down(KEYS[3], ARGV[6])
return ttl >= 0 and at + ttl < expiry and {1, at, ttl} or at
