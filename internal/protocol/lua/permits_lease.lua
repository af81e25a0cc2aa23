-- lease: extends a permit to at least a time to live, if it is held. A permit that never expires gets that time to live.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the held permits
-- ARGV[4]  the permit's id
-- ARGV[5]  time to live, ms
-- ARGV[6]  the channel that makes its holder check it
--
-- now       done
-- {0, now}  it is not held

-- from common: lease_error, even_if_full
-- from waitlist: send_retry
-- from kind: available, announce, tell_holders
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
  if never then -- waiters know of no end
    announce(available)
    send_retry(0)
  end
  tell_holders(ARGV[6])
  even_if_full('ZREM', KEYS[2])
  redis.call('ZADD', KEYS[2], string.format('%.0f', expiry), ARGV[4])
end
return at
