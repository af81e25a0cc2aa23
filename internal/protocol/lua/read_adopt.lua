-- adopt, for reading: this owner shall read, once, in the place of another one.
--
-- KEYS[1]  the lock
-- KEYS[2]  the owner's read hold
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the other one
-- ARGV[7]  the payload
-- ARGV[8]  what stands in front of an owner in the keys of its read holds
--
-- now          it does
-- {0, now}     the other one does not read
-- {-3, now}    the other one writes, too, and would go on writing beside it

-- from common: OTHER_KIND, lease, publish
-- from rw: other_kind, reads, reading, keep_reads, drop_reads, raise_all, others
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local key, owner, other, prefix = KEYS[1], ARGV[5], ARGV[6], ARGV[8]
local mine = reading(key, prefix, owner)
if mine > 1 then
  return at -- one that comes late
elseif mine == 0 then
  if reading(key, prefix, other) == 0 then
    return {0, at}
  elseif redis.call('HEXISTS', key, other .. ':write') == 1 then
    return {-3, at}
  end
end
publish(ARGV[7])
keep_reads(key, prefix, owner, mine, 1, lease)
drop_reads(prefix, other, 1, reads(key, other))
redis.call('HDEL', key, other)
raise_all(key, prefix, lease)
if mine == 0 then -- the other one may have had a longer lease, of which its owner does not know
  local lives = redis.call('PTTL', key)
  local longest = others(key, prefix, {}, lives)
  if longest > 0 and longest < lives then
    redis.call('PEXPIRE', key, longest)
  end
end
return at
