-- add: this call shall have made so many permits more available.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  so many; below 0: fewer
-- ARGV[7]  1 to do so only if the semaphore exists, else 0
-- ARGV[8]  final, if a refusal is the last word
--
-- now       it has
-- {0, now}  the semaphore does not exist

-- from common: even_if_full
-- from calls: remembers, remember, was_refused, refuse_call
-- from semaphore: n, change
if remembers(KEYS[2], ARGV[4]) then
  return at
end
if ARGV[7] == '1' and redis.call('EXISTS', KEYS[1]) == 0 or was_refused(KEYS[2], ARGV[4]) then
  return refuse_call(KEYS[2], ARGV[4], ARGV[5])
end
even_if_full('ZREM', KEYS[2])
change(n)
return {1, at, untold}
