-- await: is the count zero, or has it been since? Changes nothing.
--
-- KEYS[1]  the count
-- KEYS[2]  when it was zero last, µs
-- ARGV[4]  since when, µs; 0: it is about now alone
--
-- now                                     it is, or has been
-- {0, now, pttl, '', again, count, µs}  it is not; again is when to ask again at
--                                         the latest, ms; µs is now

-- from calls: integer
local count, wrong = integer(redis.call('GET', KEYS[1]))
if wrong then
  return wrong
end
local since = tonumber(ARGV[4])
if count <= 0 or since > 0 and (tonumber(redis.call('GET', KEYS[2]) or '0') or 0) > since then
  return at
end
local pttl = redis.call('PTTL', KEYS[1])
return {0, at, pttl, '', pttl < 0 and 60000 or pttl, count, us}
