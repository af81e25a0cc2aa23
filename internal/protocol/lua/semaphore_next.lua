-- Pieces for the semaphore without leases: the waiter that others stand back for, so that one
-- who wants many permits is not overtaken for ever by those who want few.
--
-- At a key of our own stands how many permits are wanted, since when others are
-- held back for that (ms; 0: nobody was yet), and who wants them, 16 bytes. The
-- first who is refused writes it, and renews it with each try; it goes when that
-- waiter is let in, when it leaves, or with its time to live.
--
-- Others are held back for a while, and then let by for as long. After that the
-- turn is over: whoever is refused next has the next one.

-- How long a waiter is stood back for that is not heard of, ms. It tries again
-- within three seconds; a request that is lost may cost it a moment of that.
local patience = 4500

-- How long others are held back at a stretch, and how long they are let by, ms.
local stretch = 10000

-- reservation returns who waits, for how many, and since when others are held back
-- for it; nil if nobody does, or nobody can: one of the future would never end.
local function reservation(key)
  local text = redis.call('GET', key)
  local n, since = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) ')
  if n and #n < 16 and since - at <= 0 then
    return string.sub(text, -16), tonumber(n), tonumber(since)
  end
end

-- reserve writes that down.
local function reserve(key, who, n, since, ttl)
  redis.call('SET', key, string.format('%.0f %.0f ', n, since) .. who, 'PX', ttl)
end

-- wanted says how many permits another one waits for that must stay for it now,
-- and for how long at most, ms.
-- from semaphore_next: reservation, stretch
local function wanted(key, who)
  local other, n, since = reservation(key)
  if not other or other == who or since > 0 and at >= since + stretch then
    return 0, 60000
  end
  local left = redis.call('PTTL', key)
  if since > 0 then
    left = math.min(left, since + stretch - at)
  end
  return n, left
end

-- begin_stretch notes that somebody was refused for that waiter's sake alone.
-- from semaphore_next: reservation, reserve
local function begin_stretch(key)
  local who, n, since = reservation(key)
  if since == 0 then
    reserve(key, who, n, at, math.max(1, redis.call('PTTL', key)))
  end
end

-- stand_next writes down who waits for how many, unless it is another one's turn, and reports whether it has.
-- from semaphore_next: reservation, reserve, stretch, patience
local function stand_next(key, who, n)
  local other, _, since = reservation(key)
  if not other or since > 0 and at >= since + 2 * stretch then
    other, since = who, 0
  end
  if other == who then
    reserve(key, who, n, since, patience)
    return true
  end
end

-- stand_down takes back what stand_next has written, and reports whether it had.
-- from semaphore_next: reservation
local function stand_down(key, who)
  if reservation(key) == who then
    redis.pcall('DEL', key)
    return true
  end
end
