-- release, for reading: this owner, who reads so many times, shall read fewer times.
--
-- KEYS[1]     the lock
-- KEYS[2...]  the owner's read holds before it
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the count after; 0 to read no more
-- ARGV[8]  what stands in front of the owner in KEYS[2]
-- ARGV[9]  if there is one: 1 if the owner listens for releases, too, else 0
--
-- now               it does
-- {1, now, heard, granted, untold}  it does, and nobody holds the lock any more; heard and granted as in
--                   release.lua
-- {0, now}          it does not read; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- The holds that remain live as long as the longest one did.

local key, owner, prefix = KEYS[1], ARGV[5], ARGV[8]
if ARGV[6] == '1' and ARGV[7] == '0'
  and redis.call('HLEN', key) == 2 and redis.call('HGET', key, owner) == '1' and redis.call('HGET', key, 'mode') == 'read' then
  -- Nobody else reads. If the one hold has ended, so has the lock.
  local lived = redis.call('DEL', key, KEYS[2]) == 2
  -- from line: LINE
  local stand = redis.pcall('EXISTS', LINE, TURN)
  local lined = type(stand) == 'number'
  if lined and stand > 0 then
    -- from rw: move_on
    local heard, granted = move_on(prefix, nil, ARGV[9])
    return {lived and 1 or 0, at, heard, granted, untold}
  end
  -- from common: announced, refused
  if lined and announced and not refused and heard - (ARGV[9] or 0) > 0 then
    -- from line: leave_turn
    leave_turn(0)
  end
  return not lived and {0, at} or refused and {1, at, refused} or at
end

-- from common: publish
-- from rw: reading, drop_reads
local count, ttl = reading(key, prefix, owner)
local from, to = tonumber(ARGV[6]), tonumber(ARGV[7])
if count == 0 then
  return {0, at}
end
if count > from or count < to then
  return {-2, at, count}
end
if to > 0 then
  -- from common: even_if_full
  -- from rw: keep_reads
  even_if_full('HDEL', key)
  keep_reads(key, prefix, owner, count, to, ttl)
  drop_reads(prefix, owner, to + 1, from)
  return at
end
local lives = redis.call('PTTL', key)
if redis.call('HGET', key, 'mode') == 'write' then
  redis.call('HDEL', key, owner) -- it goes on writing
  drop_reads(prefix, owner, 1, from)
  return at
end
-- from rw: others, read_on, move_on
local longest, dead, seen = others(key, prefix, {[owner] = true}, lives)
redis.call('HDEL', key, owner)
drop_reads(prefix, owner, 1, from)
read_on(key, lives, longest, dead)
if longest == 0 then
  local heard, granted = move_on(prefix, nil, ARGV[9])
  return {1, at, heard, granted, untold}
elseif not seen or lives - longest > 1000 then
  publish(ARGV[4]) -- it may be free, or whoever waits for its end need not wait for so long
end
return {1, at, untold}
