-- acquire: this owner, who holds the lock so many times, shall hold it once more.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the last fencing token, if one is wanted
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after: one more
-- ARGV[2]  where those who wait listen, if they are to be counted; else empty
-- ARGV[8]  how long KEYS[2] lives, ms; 0: for ever; if there is KEYS[2]
-- behind   what to tell those who wait if it does, if anything
--
-- now                     it does
-- {1, now, token}         it does, and a token is wanted
-- {0, now, pttl, holder}  somebody else holds it
-- {0, now, pttl, holder, pttl, n}  the same, and so many listen at this node
-- {-2, now, count}        the count was another one; nothing was done
--
-- It goes from one state to another and adds nothing, so asking twice is asking
-- once: the count that it was to set is then there already. One that comes late
-- finds another state and does nothing.

-- from common: lease
local free = redis.call('EXISTS', KEYS[1]) == 0
if not free or ARGV[6] ~= '0' then
  local count = redis.call('HGET', KEYS[1], ARGV[5]) or '0'
  if count ~= ARGV[7] and ARGV[6] == '0' then
    -- from common: OTHER_KIND, foreign
    local holders = redis.call('HKEYS', KEYS[1])
    if foreign(holders[1], holders[2]) then
      return redis.error_reply(OTHER_KIND)
    end
    local pttl = redis.call('PTTL', KEYS[1])
    if ARGV[2] == '' then
      return {0, at, pttl, holders[1]}
    end
    local listen = redis.pcall('PUBSUB', ARGV[3] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[2])
    return {0, at, pttl, holders[1], pttl, listen[2]}
  elseif count ~= ARGV[7] and count ~= ARGV[6] then
    return {-2, at, tonumber(count)}
  end
end
local token
if KEYS[2] then
  -- from common: take_token
  local wrong
  token, wrong = take_token(KEYS[2], ARGV[8])
  if wrong then
    return wrong
  end
end
redis.call('HSET', KEYS[1], ARGV[5], ARGV[7])
if free then
  redis.call('PEXPIRE', KEYS[1], lease)
else
  -- from common: raise
  raise(KEYS[1], lease)
end
if ARGV[KEYS[2] and 9 or 8] then
  redis.pcall(ARGV[3], ARGV[2], ARGV[KEYS[2] and 9 or 8])
end
return token and {1, at, token} or at
