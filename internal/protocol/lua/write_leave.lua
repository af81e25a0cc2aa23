-- leave, for writing: this owner shall neither stand in line to write, nor have reserved the lock, nor write.
--
-- KEYS[1]  the lock
-- KEYS[2]  the writer who is next
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  what stands in front of an owner in the keys of its read holds
--
-- {1, now, untold}  it stood there, had reserved it, or was let in meanwhile
-- {0, now, untold}  none of these
--
-- Readers who made way are let in, or told. A lock that is free is passed on, too: the one that leaves may have been
-- told to ask.

-- from common: has_placeholder
-- from line: step_out, tell
-- from rw: write_no_more, move_on
local key, owner = KEYS[1], ARGV[5]
local field = owner .. ':write'
local stood = step_out(field)
local reserved = redis.call('GET', KEYS[2]) == owner
if reserved then
  redis.call('DEL', KEYS[2])
end
local held = redis.call('HGET', key, field) == '1'
if held then
  write_no_more(key, ARGV[6], owner)
end
if (stood or reserved or held) and redis.call('HGET', key, 'mode') ~= 'write' then
  move_on(ARGV[6], '0') -- see announce_write in rw.lua
elseif stood and has_placeholder() then
  tell(0)
end
return {(stood or reserved or held) and 1 or 0, at, untold}
