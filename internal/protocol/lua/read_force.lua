-- force, for reading: none of these owners shall read any more.
--
-- KEYS[1]     the lock
-- ARGV[4]     the payload
-- ARGV[5]     what stands in front of an owner in the keys of its read holds
-- ARGV[6...]  owners; empty behind them: nor any other one, since these are only the first of a crowd
--
-- {1, now, untold}  one of them did; if nobody holds it any more, those in line have it now
-- {0, now}          none did
--
-- Of a crowd, most of those who are named must read, so that a call that comes late does not hit others. The keys of
-- its read holds are left to expire.

-- from common: publish
-- from rw: reads, reading, others, drop_reads, read_on, admit
local key, prefix = KEYS[1], ARGV[5]
local found, leaving = {}, {}
for i = 6, #ARGV do
  local count = reads(key, ARGV[i])
  if count > 0 then
    reading(key, prefix, ARGV[i]) -- fails as long as its keys may be on another node
    found[#found + 1] = {ARGV[i], count}
    leaving[ARGV[i]] = true
  end
end
if #found == 0 then
  return {0, at}
end
if ARGV[#ARGV] == '' and 2 * #found > #ARGV - 6 and redis.call('HGET', key, 'mode') == 'read' then
  publish(ARGV[4])
  redis.call('DEL', key)
  admit(prefix)
  return {1, at, untold}
end
local lives, longest, dead = redis.call('PTTL', key), nil, nil
if redis.call('HGET', key, 'mode') == 'read' then
  longest, dead = others(key, prefix, leaving, lives)
end
publish(ARGV[4])
for i = 1, #found do
  redis.call('HDEL', key, found[i][1])
  drop_reads(prefix, found[i][1], 1, found[i][2])
end
if longest then
  read_on(key, lives, longest, dead)
  admit(prefix)
end
return {1, at, untold}
