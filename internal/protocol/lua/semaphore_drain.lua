-- drain: this call shall have taken all permits that are available.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the calls that have had their effect
-- ARGV[4]  the call's id
-- ARGV[5]  how long to keep it, ms
-- ARGV[6]  0
--
-- {1, now, taken}
--
-- How many it took stands beside the call's id, with the same score, in case it
-- is asked again.

-- from calls: remembers, remember
-- from semaphore: free
local score = remembers(KEYS[2], ARGV[4])
local call = ARGV[4] .. ' ' -- made once: it may be long, and many may have that score
if score then
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], score, score)) do
    if string.sub(member, 1, #call) == call then
      return {1, at, tonumber(string.sub(member, #call + 1))}
    end
  end
  return redis.error_reply('ERR what this call has drained is forgotten')
end
remember(KEYS[2], ARGV[4], ARGV[5])
remember(KEYS[2], call .. string.format('%.0f', free), ARGV[5])
if free ~= 0 then
  redis.call('INCRBY', KEYS[1], string.format('%.0f', -free)) -- keeps the time to live
end
return {1, at, free}
