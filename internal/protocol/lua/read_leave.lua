-- leave, for reading: this owner shall neither stand in line to read, nor read.
--
-- KEYS[1]  the lock
-- KEYS[2]  the owner's read hold
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  what stands in front of the owner in KEYS[2]
--
-- {1, now, untold}  it stood there, or was let in meanwhile
-- {0, now, untold}  neither
--
-- A lock that is free is passed on, too: the one that leaves may have been told to ask.

-- from common: has_placeholder
-- from line: step_out, tell
-- from rw: reading, drop_reads, others, read_on, move_on
local key, owner, prefix = KEYS[1], ARGV[5], ARGV[6]
local stood = step_out(owner)
local held = reading(key, prefix, owner) == 1
if held then
  local lives = redis.call('PTTL', key)
  local longest, dead = others(key, prefix, {[owner] = true}, lives)
  redis.call('HDEL', key, owner)
  drop_reads(prefix, owner, 1, 1)
  if redis.call('HGET', key, 'mode') == 'read' then
    read_on(key, lives, longest, dead)
  end
end
if (held or stood) and redis.call('EXISTS', key) == 0 then
  move_on(prefix)
elseif stood and redis.call('HGET', key, 'mode') == 'write' and has_placeholder() then
  tell(0)
end
return {(stood or held) and 1 or 0, at, untold}
