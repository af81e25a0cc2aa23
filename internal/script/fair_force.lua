-- force, in turn: none of these owners shall hold the lock any more; who is next
-- is told, and so is the one who held it.
--
-- KEYS[1...5] see fair.lua
-- ARGV[4]     the payload
-- ARGV[5...]  owners
--
-- {1, now}   one of them did, and the lock is free now
-- {0, now}   none did
for i = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    tell_next(ARGV[4])
    publish(KEYS[5] .. ':' .. ARGV[i], ARGV[4])
    redis.call('DEL', KEYS[1])
    return {1, at}
  end
end
return {0, at}
