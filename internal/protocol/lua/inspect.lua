-- inspect: reads the state of a lock. Changes nothing.
--
-- KEYS[1]  the lock
-- KEYS[2]  the last fencing token if ARGV[4] is 1; otherwise keys that the kind adds
--
-- {1, now, pttl, token, {owner, mode, count, pttl...}, {seat...}}
--
-- pttl is -2 if the lock is free and -1 without an expiry; mode is empty unless the kind has one. The seats are the first thousand
-- entries of the waitlist.

-- from waitlist: entries
-- from kind: holders, lives
local token = ARGV[4] == '1' and redis.call('GET', KEYS[2]) or '0'
local all, wrong = holders()
if wrong then
  return wrong
end
return {1, at, all[1] and lives() or -2, token, all, entries()}
