-- leave: this owner shall neither stand in line nor hold the lock.
--
-- KEYS[1]  the lock, a hash of owner -> count
-- ARGV[4]  the payload
-- ARGV[5]  owner
--
-- {1, now, untold}  it stood there, or was granted the lock meanwhile: the next one has it
-- {0, now, untold}  neither
--
-- A lock that is free is passed on, too: the one that leaves may have been told to ask.

-- from common: has_placeholder
-- from line: step_out, tell, pass_on
local stood = step_out(ARGV[5])
local held = redis.call('HGET', KEYS[1], ARGV[5]) == '1'
if held then
  redis.call('DEL', KEYS[1])
end
if held or redis.call('EXISTS', KEYS[1]) == 0 then
  local stand = redis.pcall('EXISTS', LINE, TURN)
  if type(stand) == 'number' and stand > 0 then
    pass_on()
  elseif held then
    publish(ARGV[4])
  end
elseif stood and has_placeholder() then
  tell(0)
end
return {(stood or held) and 1 or 0, at, untold}
