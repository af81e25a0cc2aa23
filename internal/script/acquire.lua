-- acquire: this owner, who holds the lock so many times, shall hold it once more.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- ARGV[1]  lease, ms
-- ARGV[2]  owner
-- ARGV[3]  the count before
-- ARGV[4]  the count after: one more, or the same to keep what stands
-- ARGV[5]  1 if this was asked before without an answer, else 0
-- ARGV[6]  server time, ms, after which this call does nothing; 0: never
--
-- {1, now}                it does
-- {0, now, pttl, holder}  another owner holds it
-- {-1, now}               too late
-- {-2, now, count}        the count was another one; nothing was done
--
-- It goes from one state to another and adds nothing, so asking twice is asking
-- once, and one that comes late finds another state and does nothing. The time
-- to live is never shortened: an outer hold keeps what it was promised.
if not string.match(ARGV[1], '^%d+$') or #ARGV[1] > 12 or ARGV[1] == '0' then
  return redis.error_reply('ERR lease is not a number of milliseconds: ' .. ARGV[1])
end
local at = now()
if too_late(at, ARGV[6]) then
  return {-1, at}
end
local count = held(KEYS[1], ARGV[2])
if count ~= ARGV[3] and not (ARGV[5] == '1' and count == ARGV[4]) then
  return {-2, at, tonumber(count)}
end
if count ~= '0' then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
  end
  return {1, at}
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {0, at, redis.call('PTTL', KEYS[1]), redis.call('HKEYS', KEYS[1])[1]}
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {1, at}
