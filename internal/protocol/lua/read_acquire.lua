-- acquire, for reading: this owner, who reads so many times, shall read once more.
--
-- KEYS[1]     the lock
-- KEYS[2]     the writer who is next, if one has reserved the lock
-- KEYS[3...]  the owner's read holds after it
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after: one more
-- ARGV[8]  what stands in front of the owner in KEYS[3]
-- ARGV[9]  if it is not empty: only if the owner writes, or has got this before
-- ARGV[10] if there is one: the number of this ask, if the owner is to stand in line when it is refused; ARGV[11]:
--          how long a grant lasts, ms; ARGV[12]: 1 if those who listen may do so at any node
--
-- now                     it does
-- {0, now, pttl, holder}  another owner writes
-- {0, now, -2, '', hint}  another owner is going to write, or the lock is left to others; hint: within so many ms
-- {0, now, pttl, holder, hint, place, new, listens}  one of both, and it stands in line: see refuse in line.lua
-- {-2, now, count}        the count was another one; nothing was done
--
-- Readers join readers, and the writer may read what it writes. Every read hold
-- of the owner lives for at least this lease, and the lock as long as the longest.

-- from common: lease
-- from line: LINE
local some, lined
if ARGV[6] == '0' and ARGV[7] == '1' and (ARGV[9] or '') == '' then
  some = redis.pcall('EXISTS', KEYS[1], KEYS[2], LINE, TURN)
  lined = type(some) == 'number' -- see acquire.lua
  if not lined then
    some = redis.call('EXISTS', KEYS[1], KEYS[2])
  end
  if some == 0 then
    redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[5], '1') -- nobody holds it, and no writer is next
    redis.call('SET', KEYS[3], '1', 'PX', lease)
    redis.call('PEXPIRE', KEYS[1], lease)
    return at
  end
end

-- from rw: reading, keep_reads
local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
local count = reading(key, prefix, owner)
local from, to = ARGV[6] + 0, ARGV[7] + 0 -- fails of what is no number, and before anything is written
if count ~= to and count ~= from then
  if from == 0 then
    return {0, at, redis.call('PTTL', key), owner} -- one that comes late
  end
  return {-2, at, count}
end
if ARGV[9] == '1' and count ~= to and redis.call('HEXISTS', key, owner .. ':write') == 0 then
  return {-2, at, count}
end
local mode = redis.call('HGET', key, 'mode')
if count == 0 and not (mode == 'write' and redis.call('HEXISTS', key, owner .. ':write') == 1) then
  local holder, hint, _
  local line = lined and some > (mode and 1 or 0) -- perhaps
  if line and not mode and redis.call('EXISTS', key) == 0 then
    -- from rw: in_turn
    _, hint = in_turn(prefix, owner, ARGV[10])
    mode = redis.call('HGET', key, 'mode')
  end
  if mode == 'write' then
    -- from rw: writer
    holder = writer(key)
  end
  if not holder and not hint then
    if mode ~= 'read' and redis.call('EXISTS', key) == 1 then
      -- from common: OTHER_KIND
      return redis.error_reply(OTHER_KIND)
    end
    local first = redis.call('GET', KEYS[2])
    if first and first ~= owner then
      local left = redis.call('PTTL', KEYS[2])
      if left >= 0 and left <= 60000 then -- no writer reserves it for so long
        hint = left
      end
    end
  end
  if holder or hint then
    -- from line: refuse
    return refuse(lined, holder, hint, owner, ARGV[10], ARGV[11], ARGV[12])
  end
  if line then -- it may stand there, and would be let in again
    -- from line: step_out
    step_out(owner)
  end
end
if not mode then
  redis.call('HSET', key, 'mode', 'read')
end
keep_reads(key, prefix, owner, count, to, lease)
if mode then
  -- from rw: raise_all
  raise_all(key, prefix, lease)
else
  redis.call('PEXPIRE', key, lease)
end
return at
