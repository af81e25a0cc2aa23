-- release, for writing: this owner, who writes so many times, shall write fewer
-- times.
--
-- KEYS[1]  the lock
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the count after; 0 to write no more
-- ARGV[8]  what stands in front of the owner in the keys of its read holds
--
-- {1, now}          it does
-- {0, now}          it does not write; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- If the owner still reads, the lock goes on as one for reading.
local key, owner = KEYS[1], ARGV[5]
local field = owner .. ':write'
local count, from, to = tonumber(held(key, field)), tonumber(ARGV[6]), tonumber(ARGV[7])
if count == 0 then
  return {0, at}
end
if count > from or count < to then
  return {-2, at, count}
end
if to > 0 then
  even_if_full('HDEL', key)
  redis.call('HSET', key, field, ARGV[7])
  return {1, at}
end
announce_write(ARGV[4])
write_no_more(key, ARGV[8], owner)
return {1, at, untold}
