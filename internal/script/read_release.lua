-- release, for reading: this owner, who reads so many times, shall read fewer times.
--
-- KEYS[1]     the lock
-- KEYS[2]     the channel that releases are announced on
-- KEYS[3...]  the owner's read holds before it
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after; 0 to read no more
-- ARGV[8]  what stands in front of the owner in KEYS[3]
--
-- {1, now}          it does
-- {0, now}          it did not read before
-- {-2, now, count}  the count was another one; nothing was done
--
-- The holds that remain live as long as the longest one did.
local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
local count, ttl = reading(key, prefix, owner)
local from, to = tonumber(ARGV[6]), tonumber(ARGV[7])
if again and count == to then
  return {1, at}
end
if count == 0 then
  return {0, at}
end
if count ~= from then
  return {-2, at, count}
end
if to > 0 then
  keep_reads(key, prefix, owner, to, ttl)
  drop_reads(prefix, owner, to + 1, from)
  return {1, at}
end
local lives = redis.call('PTTL', key)
if redis.call('HGET', key, 'mode') == 'write' or ttl + 10 < lives then
  -- The lock lives for the sake of others: the owner itself, who writes, or a
  -- reader whose hold is longer. So nobody need be counted.
  redis.call('HDEL', key, owner)
  drop_reads(prefix, owner, 1, from)
  return {1, at}
end
local longest, dead = 0, {owner}
readers(key, prefix, function(reader, _, left)
  if reader ~= owner and left > 0 then
    longest = math.max(longest, left)
  elseif reader ~= owner then
    dead[#dead + 1] = reader
  end
end)
if longest == 0 or lives - longest > 1000 then
  -- It is free, or whoever waits for its end need not wait for so long.
  publish(KEYS[2], ARGV[4])
end
drop_reads(prefix, owner, 1, from)
if longest == 0 then
  redis.call('DEL', key)
  return {1, at}
end
for i = 1, #dead do
  redis.call('HDEL', key, dead[i])
end
redis.call('PEXPIRE', key, longest)
return {1, at}
