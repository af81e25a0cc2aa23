-- await: is the count zero? Changes nothing.
--
-- KEYS[1]  the count
--
-- {1, now, 0}                     it is
-- {0, now, pttl, '', again, count}  it is not; again is when to ask again at the
--                                 latest, ms
local count, wrong = integer(redis.call('GET', KEYS[1]))
if wrong then
  return wrong
end
if count <= 0 then
  return {1, at, 0}
end
local pttl = redis.call('PTTL', KEYS[1])
return {0, at, pttl, '', pttl < 0 and 60000 or pttl, count}
