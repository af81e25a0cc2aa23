-- Stands before the scripts of the fair lock. All of them have the keys
--
-- KEYS[1]  the lock, a hash of owner -> count
-- KEYS[2]  the line, a list of owners, the next one first
-- KEYS[3]  when Redisson takes each of them for gone, by the server's time, ms
-- KEYS[4]  when we take our own waiters for gone, likewise
-- KEYS[5]  the channel: a waiter listens to it with a colon and its owner behind
--
-- A Redisson waiter writes once how long it is going to wait. One of ours comes
-- again every few seconds, and is gone if it does not: KEYS[4] says so. Redisson
-- does not know KEYS[4], so ours stand in KEYS[3] as well, with a time that no
-- living waiter reaches.

-- believed is how long one of our waiters is believed to be there, ms.
local believed = 10000
-- patience is how long a Redisson waiter waits by default, ms. When it is granted
-- the lock, or gives up, it takes so much off the times of all who stand behind.
local patience = 300000
-- memory is how long a line of our waiters alone is kept if nobody touches it, ms.
local memory = 86400000

-- left is for how many ms more a waiter is believed to be there.
local function left(owner)
  local score = redis.call('ZSCORE', KEYS[4], owner) or redis.call('ZSCORE', KEYS[3], owner)
  return score and tonumber(score) - at or 0
end

-- drop takes a waiter out.
local function drop(owner)
  redis.call('LREM', KEYS[2], 1, owner)
  redis.call('ZREM', KEYS[3], owner)
  redis.call('ZREM', KEYS[4], owner)
end

-- next_in_line is whose turn it is, or nil, when this owner asks. Those who are
-- gone are dropped on the way. Who says that they are must know that Redis could
-- be reached meanwhile:
--
-- - One of our waiters that has kept its own place does. One that has not was cut
--   off itself, so it has everybody begin anew.
-- - Anybody else believes our waiters for twice as long.
--
-- The owner itself is there, whatever the times say.
local function next_in_line(asking)
  local tolerance = believed
  local own = redis.call('ZSCORE', KEYS[4], asking)
  if own and tonumber(own) > at then
    tolerance = 0
  elseif own then
    local cut_off = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', at)
    for i = 1, #cut_off do
      redis.call('ZADD', KEYS[4], at + believed, cut_off[i])
    end
  end
  local head = redis.call('LINDEX', KEYS[2], 0)
  while head and head ~= asking do
    local beyond = left(head)
    if redis.call('ZSCORE', KEYS[4], head) then
      beyond = beyond + tolerance
    end
    if beyond > 0 then
      return head
    end
    drop(head)
    head = redis.call('LINDEX', KEYS[2], 0)
  end
  if not head then
    redis.call('DEL', KEYS[3], KEYS[4])
  end
  return head or nil
end

-- others is how many Redisson waiters stand in line.
local function others()
  return math.max(0, redis.call('LLEN', KEYS[2]) - redis.call('ZCARD', KEYS[4]))
end

-- tend sees to it that a line of dead clients does not stay for ever. Redisson
-- does not, and does not expect it: its waiters' places are never given an end.
local function tend()
  if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3], KEYS[4])
    return
  end
  for i = 2, 3 do
    if others() > 0 then
      redis.call('PERSIST', KEYS[i])
    else
      redis.call('PEXPIRE', KEYS[i], memory)
    end
  end
end

-- tell_next tells the next one in line that it is its turn. If it seems to be
-- gone, the one behind it is told as well, who will find out; and so on, within
-- reason.
local function tell_next(payload)
  for i = 0, 9 do
    local waiter = redis.call('LINDEX', KEYS[2], i)
    if not waiter then
      return
    end
    publish(KEYS[5] .. ':' .. waiter, payload)
    if left(waiter) > 0 then
      return
    end
  end
end
