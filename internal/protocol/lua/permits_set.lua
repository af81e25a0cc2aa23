-- set: there shall be so many permits, held ones included.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
-- KEYS[3]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  so many
-- ARGV[7]  0 to leave a semaphore alone that exists already
-- ARGV[8]  final, if a refusal is the last word
--
-- now        there are
-- {0, now}   it exists already

-- from calls: remembers, remember, integer, was_refused, refuse_call
-- from permits: free, lined, theirs, expired, whole, store, pass_on
if remembers(KEYS[3], ARGV[4]) then
  return at
end
local exists = redis.call('EXISTS', KEYS[1]) == 1
if exists and ARGV[7] == '0' or was_refused(KEYS[3], ARGV[4]) then
  return refuse_call(KEYS[3], ARGV[4], ARGV[5])
end
local total, wrong = integer(ARGV[6])
if wrong then
  return wrong
end
local now = total - redis.call('ZCARD', KEYS[2])
remember(KEYS[3], ARGV[4], ARGV[5])
if not exists then
  redis.call('SET', KEYS[1], whole(now))
  free, stored = now, now
  pass_on(0)
elseif now > free then
  pass_on(now - free)
else
  free = now
  store() -- keeps the time to live
end
return {1, at, untold}
