-- acquire, for writing: this owner, who writes so many times, shall write once
-- more.
--
-- KEYS[1]  the lock
-- KEYS[2]  the writer who is next, if one has reserved the lock
-- KEYS[3]  the last fencing token, if one is wanted
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after: one more
-- ARGV[8]  what stands in front of an owner in the keys of its read holds
-- ARGV[9]  how long the lock is reserved for the owner if it is refused, ms; 0:
--          not at all
-- ARGV[10] how long KEYS[3] lives, ms; 0: for ever; if there is KEYS[3]
--
-- now                     it does
-- {1, now, token}         it does, and a token is wanted
-- {0, now, pttl, holder}  another owner reads or writes
-- {-2, now, count}        the count was another one; nothing was done
-- {-3, now}               the owner reads, and would wait for itself
--
-- Readers whose holds have ended do not count, whatever the hash says.

-- from common: lease
local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
local field = owner .. ':write'
if ARGV[6] == '0' and not KEYS[3] and redis.call('EXISTS', key, KEYS[2]) == 0 then
  redis.call('HSET', key, 'mode', 'write', field, ARGV[7]) -- nobody holds it, and nobody is next
  redis.call('PEXPIRE', key, lease)
  return at
end

local count = redis.call('HGET', key, field) or '0'
if count ~= ARGV[7] and count ~= ARGV[6] then
  if ARGV[6] == '0' then
    return {0, at, redis.call('PTTL', key), owner} -- one that comes late
  end
  return {-2, at, tonumber(count)}
end
local mode = redis.call('HGET', key, 'mode')
local first = count == '0' and redis.call('GET', KEYS[2])
local stands = count == '0' and redis.call('EXISTS', key) == 1
if stands then
  -- from rw: reading, readers, writer, bury
  local holder, dead = nil, {}
  if mode == 'read' then
    if reading(key, prefix, owner) > 0 then
      return {-3, at}
    end
    for reader in readers(key) do
      if reading(key, prefix, reader) > 0 then
        holder = reader
        break
      end
      dead[#dead + 1] = reader
    end
  elseif mode == 'write' then
    holder = writer(key)
  end
  if mode ~= 'read' and not holder then
    -- from common: OTHER_KIND
    return redis.error_reply(OTHER_KIND)
  end
  if holder then
    bury(key, dead) -- or each try would look at them again
    if ARGV[9] ~= '0' and (not first or first == owner) then
      redis.call('SET', KEYS[2], owner, 'PX', ARGV[9])
    end
    return {0, at, redis.call('PTTL', key), holder}
  end
end
local token
if KEYS[3] then
  -- from common: take_token
  local wrong
  token, wrong = take_token(KEYS[3], ARGV[10])
  if wrong then
    return wrong
  end
end
if stands then
  redis.call('DEL', key) -- readers whose holds have ended
end
if count == '0' then
  redis.call('HSET', key, 'mode', 'write')
  if first == owner then
    redis.call('DEL', KEYS[2])
  end
end
redis.call('HSET', key, field, ARGV[7])
-- from common: raise
raise(key, lease)
return token and {1, at, token} or at
