-- acquire: this owner, who holds each of these locks so many times, shall hold
-- each of them once more: all, or none.
--
-- KEYS[i]      a lock, a hash of owner -> count
-- ARGV[4]      owner
-- ARGV[3*i+2]  lease of KEYS[i], ms
-- ARGV[3*i+3]  its count before
-- ARGV[3*i+4]  its count after
--
-- now                        it does
-- {0, now, pttl, holder, i}  another owner holds KEYS[i]; nothing was done
-- {-2, now, count, i}        the count of KEYS[i] was another one; nothing was done
--
-- For each lock it is mutex_acquire.lua, without tokens.

-- from common: lease_error, held, raise
for i, key in ipairs(KEYS) do
  local wrong = lease_error(ARGV[3 * i + 2])
  if wrong then
    return wrong
  end
  local count = held(key, ARGV[4])
  if count ~= ARGV[3 * i + 4] then
    if ARGV[3 * i + 3] == '0' and redis.call('EXISTS', key) == 1 then
      -- from common: OTHER_KIND, foreign
      local holders = redis.call('HKEYS', key)
      if foreign(holders[1], holders[2]) then
        return redis.error_reply(OTHER_KIND)
      end
      return {0, at, redis.call('PTTL', key), holders[1], i}
    elseif count ~= ARGV[3 * i + 3] then
      return {-2, at, tonumber(count), i}
    end
  end
end
for i, key in ipairs(KEYS) do
  redis.call('HSET', key, ARGV[4], ARGV[3 * i + 4])
  raise(key, ARGV[3 * i + 2])
end
return at
