-- leave: this owner does not wait any more to write.
--
-- KEYS[1]  the writer who is next
-- ARGV[4]  the payload
-- ARGV[5]  owner
--
-- now       always
--
-- Readers who made way are told.

-- from common: publish
if redis.call('GET', KEYS[1]) == ARGV[5] then
  publish(ARGV[4])
  redis.call('DEL', KEYS[1])
end
return at
