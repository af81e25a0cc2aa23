-- set: this call shall have made the semaphore, with so many permits.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  so many
-- ARGV[7]  final, if a refusal is the last word
--
-- now       it has
-- {0, now}  it exists already

-- from calls: remembers, remember, was_refused, refuse_call
-- from semaphore: n, change
if remembers(KEYS[2], ARGV[4]) then
  return at
end
if redis.call('EXISTS', KEYS[1]) == 1 or was_refused(KEYS[2], ARGV[4]) then
  return refuse_call(KEYS[2], ARGV[4], ARGV[5])
end
change(n)
return {1, at, untold}
