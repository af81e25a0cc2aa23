-- release, for writing: this owner, who writes so many times, shall write fewer
-- times.
--
-- KEYS[1]  the lock
-- ARGV[4]  the payload
-- ARGV[5]  owner
-- ARGV[6]  the count before, at most
-- ARGV[7]  the count after; 0 to write no more
-- ARGV[8]  what stands in front of the owner in the keys of its read holds
-- ARGV[9]  if there is one: 1 if the owner listens for releases, too, else 0
--
-- now               it does
-- {1, now, heard, granted, untold}  it does; heard and granted as in release.lua
-- {0, now}          it does not write; an earlier send of this call may have seen
--                   to that
-- {-2, now, count}  the count was another one; nothing was done
--
-- If the owner still reads, the lock goes on as one for reading.

local key, owner = KEYS[1], ARGV[5]
local field = owner .. ':write'
local count = redis.call('HGET', key, field) or '0'
if count == '0' then
  return {0, at}
end
if count ~= ARGV[6] or ARGV[7] ~= '0' then
  local n, from, to = tonumber(count), tonumber(ARGV[6]), tonumber(ARGV[7])
  if n > from or n < to then
    return {-2, at, n}
  end
  if to > 0 then
    -- from common: even_if_full
    even_if_full('HDEL', key)
    redis.call('HSET', key, field, ARGV[7])
    return at
  end
end
if not redis.call('HGET', key, owner) then
  redis.call('DEL', key) -- it does not read
  -- from line: LINE
  local stand = redis.pcall('EXISTS', LINE, TURN)
  local lined = type(stand) == 'number'
  if not lined or stand == 0 then
    -- from common: announced, refused
    if announced then
      redis.pcall(ARGV[3], ARGV[2], '0') -- see announce_write in rw.lua
    end
    if lined and announced and not refused and heard - (ARGV[9] or 0) > 0 then
      -- from line: leave_turn
      leave_turn(0)
    end
    return refused and {1, at, refused} or at
  end
else
  -- from rw: write_no_more
  write_no_more(key, ARGV[8], owner)
end
-- from rw: move_on
local heard, granted = move_on(ARGV[8], '0', ARGV[9])
return {1, at, heard, granted, untold}
