-- force: none of these owners shall hold the lock any more.
--
-- KEYS[1]     the lock, a hash of owner -> count
-- ARGV[4]     the payload
-- ARGV[5...]  owners
--
-- {1, now, untold}  one of them did, and it is the next one's now, or free
-- {0, now}          none did
--
-- It names the owners, so that asking again does not hit the next one.

-- from common: publish
-- from line: LINE, grant
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    publish(ARGV[4])
    redis.call('DEL', KEYS[1])
    grant()
    return {1, at, untold}
  end
end
return {0, at}
