-- acquire: these permits shall be held for so long.
--
-- KEYS[1]     how many permits are available
-- KEYS[2]     the permits that are held
-- KEYS[3]     who waits for how many
-- ARGV[4]     lease, ms
-- ARGV[5]     1 if the caller is going to wait if it is refused, else 0
-- ARGV[6...]  the permits' ids; the first one is who waits
--
-- now                            they are
-- {1, now, pttl}                 they are, and the semaphore ends before the lease
-- {0, now, pttl, '', again, free, held, kept, exists}
--                                too few are available, or another one has waited
--                                longer; pttl is when the next one expires, -1:
--                                never; again is when to ask again at the latest;
--                                kept is how many stay for that other one; exists
--                                is 0 if nobody has set how many there are
--
-- The ids make asking twice asking once: those that are held need not be taken.

-- from common: lease
local expiry, available = at + lease, redis.call('GET', KEYS[1]) or ''
if #ARGV == 6 and #available < 16 and string.match(available, '^[1-9]%d*$') and redis.call('EXISTS', KEYS[3]) == 0
  and redis.call('ZADD', KEYS[2], 'NX', expiry, ARGV[6]) == 1 then
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

-- from permits: free, expired, whole
-- from semaphore_next: wanted, hold_back, stand_next, stand_down
local n, missing = #ARGV - 5, 0
for i = 6, #ARGV do
  if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    missing = missing + 1
  end
end
local kept, again = wanted(KEYS[3], ARGV[6])
if missing > 0 and free - missing < kept then
  if free >= missing then
    hold_back(KEYS[3])
  end
  -- One who wants more than there are keeps nobody else waiting.
  local held = redis.call('ZCARD', KEYS[2])
  if ARGV[5] == '1' and n <= free + held then
    stand_next(KEYS[3], ARGV[6], n)
  end
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
  return {0, at, pttl, '', again, free, held, kept, redis.call('EXISTS', KEYS[1])}
end
for i = 6, #ARGV do
  local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not score or tonumber(score) < expiry then
    redis.call('ZADD', KEYS[2], whole(expiry), ARGV[i])
  end
end
if missing > 0 or redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('DECRBY', KEYS[1], missing) -- by 0, too, for WAIT: see rewrite in calls.lua
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl >= 0 then
  redis.call('PEXPIRE', KEYS[2], math.max(ttl, 1))
end
stand_down(KEYS[3], ARGV[6])
return ttl >= 0 and at + ttl < expiry and {1, at, ttl} or at
