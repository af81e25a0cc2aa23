-- retain, for writing: this owner shall write no more, and nobody shall have the lock for
-- a while: an owner that nobody is writes. If this one goes on reading, others may read,
-- too, and nothing is kept.
--
-- KEYS[1]  the lock
-- ARGV[4]  the payload: who waits shall see until when
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the owner that nobody is
-- ARGV[8]  for how long, ms
-- ARGV[9]  what stands in front of an owner in the keys of its read holds
--
-- now               it had been done before
-- {1, now, untold}  it is done
-- {0, now}          it does not write; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done

-- from common: OTHER_KIND, nothing_to_retain, even_if_full
-- from line: tell
-- from rw: other_kind, announce_write, reading, write_no_more, admit
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local key, mine, nobody = KEYS[1], ARGV[5] .. ':write', ARGV[7] .. ':write'
local nothing = nothing_to_retain(mine, nobody)
if nothing then
  return nothing
end
even_if_full('HDEL', key)
announce_write(ARGV[4])
if reading(key, ARGV[9], ARGV[5]) > 0 then
  write_no_more(key, ARGV[9], ARGV[5])
  admit(ARGV[9])
else
  redis.call('HSET', key, nobody, '1')
  redis.call('HDEL', key, mine)
  redis.call('PEXPIRE', key, ARGV[8])
  tell(0)
end
return {1, at, untold}
