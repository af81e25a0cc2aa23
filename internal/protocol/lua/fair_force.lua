-- force: none of these owners shall hold the lock any more.
--
-- KEYS[1..4]  see fair.lua
-- ARGV[4]     the payload
-- ARGV[5...]  owners
--
-- {1, now, untold}  one of them did, and it is the next one's now, or free
-- {0, now}          none did
--
-- It names the owners, so that asking again does not hit the next one. Told are
-- whoever is next, and the one who held the lock, if it listens.

-- from fair: free, survey, pass_on, bury, clear, spare
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    redis.call('DEL', KEYS[1]) -- first: it needs no memory, what follows may
    publish(ARGV[4], ARGV[2] .. ':' .. ARGV[i])
    local gone, head, more = survey(0)
    gone, head, more = pass_on(gone, head, more, ARGV[4])
    bury(gone)
    if gone > 0 and not head and not more then
      clear()
    end
    spare(head)
    return {1, at, untold}
  end
end
return {0, at}
