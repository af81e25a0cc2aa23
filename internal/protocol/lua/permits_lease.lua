-- lease: a permit shall be held for at least so long, if it is held. One that
-- never expires is given an end.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
-- ARGV[4]  the permit's id
-- ARGV[5]  time to live, ms
-- ARGV[6]  the channel on which the holder is told of a change
--
-- now       it is
-- {0, now}  it is not held

-- from common: lease_error, even_if_full
-- from line: tell
-- from permits: free, expired, announce_available, tell_holders, whole
local score = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[4]) or '0')
if score == 0 then
  return {0, at}
end
local never, expiry = score >= 922337203685477, at + tonumber(ARGV[5])
if never or score < expiry then
  local wrong = lease_error(ARGV[5])
  if wrong then
    return wrong
  end
  if never then
    announce_available(free) -- who waits knows of no end
    tell(0)
  end
  tell_holders(ARGV[6])
  even_if_full('ZREM', KEYS[2])
  redis.call('ZADD', KEYS[2], whole(expiry), ARGV[4])
end
return at
