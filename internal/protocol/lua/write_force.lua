-- force, for writing: none of these owners shall write any more.
--
-- KEYS[1]     the lock
-- ARGV[4]     the payload
-- ARGV[5]     what stands in front of an owner in the keys of its read holds
-- ARGV[6...]  owners
--
-- {1, now, untold}  one of them did, and those in line have what they may
-- {0, now}          none did

-- from rw: announce_write, write_no_more, admit
for i = 6, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i] .. ':write') == 1 then
    announce_write(ARGV[4])
    write_no_more(KEYS[1], ARGV[5], ARGV[i])
    admit(ARGV[5])
    return {1, at, untold}
  end
end
return {0, at}
