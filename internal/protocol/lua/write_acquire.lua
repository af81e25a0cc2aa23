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
-- ARGV[10] how long KEYS[3] lives, ms; 0: for ever; empty if there is none
-- ARGV[11] if there is one: the number of this ask, if the owner is to stand in line when it is refused; ARGV[12]:
--          how long a grant lasts, ms; ARGV[13]: 1 if those who listen may do so at any node
--
-- now                     it does
-- {1, now, token}         it does, and a token is wanted
-- {0, now, pttl, holder}  another owner reads or writes
-- {0, now, -2, '', hint, place, new}  the lock is left to others
-- {0, now, pttl, holder, hint, place, new, listens}  one of both, and it stands in line: see refuse in line.lua
-- {-2, now, count}        the count was another one; nothing was done
-- {-3, now}               the owner reads, and would wait for itself
--
-- Readers whose holds have ended do not count, whatever the hash says.

-- from common: lease
-- from line: LINE
local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
local field = owner .. ':write'
local some, lined
if ARGV[6] == '0' then
  some = redis.pcall('EXISTS', key, KEYS[2], LINE, TURN)
  lined = type(some) == 'number' -- see acquire.lua
  if not lined then
    some = redis.call('EXISTS', key, KEYS[2])
  end
  if some == 0 and not KEYS[3] then
    redis.call('HSET', key, 'mode', 'write', field, ARGV[7]) -- nobody holds it, and nobody is next
    redis.call('PEXPIRE', key, lease)
    return at
  end
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
if count == '0' and some > 0 then
  -- from rw: reading, readers, writer, bury
  local holder, dead, hint, mine = nil, {}, nil, nil
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
  if stands and mode ~= 'read' and not holder then
    -- from common: OTHER_KIND
    return redis.error_reply(OTHER_KIND)
  end
  if not holder and lined then
    -- from rw: in_turn
    if stands then
      redis.call('DEL', key) -- readers whose holds have ended
    end
    mine, hint = in_turn(prefix, field, ARGV[11])
    holder = not mine and not hint and (writer(key) or readers(key)()) or nil
  elseif holder and mode == 'read' then
    bury(key, dead) -- or each try would look at them again
  end
  if holder or hint then
    if ARGV[9] ~= '0' and (not first or first == owner or redis.call('EXISTS', KEYS[2]) == 0) then
      local set = redis.pcall('SET', KEYS[2], owner, 'PX', ARGV[9])
      if set.err and not string.find(set.err, 'OOM ', 1, true) then -- it can wait without; Redis 6.0 puts the line in front
        return set
      end
    end
    -- from line: refuse
    -- from rw: foreign_reader
    holder = mode == 'read' and holder and foreign_reader(key) or holder
    return refuse(lined, holder, hint, field, ARGV[11], ARGV[12], ARGV[13])
  end
  if lined then -- it may stand in line, and would be granted it again
    -- from line: step_out
    step_out(field)
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
  redis.call('DEL', key)
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
