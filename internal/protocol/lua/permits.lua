-- Pieces for the permits with a lease.
--
-- KEYS[1]  how many permits are available, a number
-- KEYS[2]  the permits that are held, a sorted set of id -> ms when it expires
--
-- Permits that have expired are available again, in every script.

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

-- announce says how many permits are going to be available.
-- from common: publish
-- from permits: whole
local function announce(n)
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
-- from permits: free, announce, give_back
local expired = redis.call('ZCOUNT', KEYS[2], 0, at)
if expired > 0 then
  announce(free + expired)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, at)
  give_back(expired)
end
