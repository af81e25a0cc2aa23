-- acquire, in turn: this owner, who holds the lock so many times, shall hold it
-- once more, when those who came before have had their turn.
--
-- KEYS[1...5] see fair.lua
-- KEYS[6]  the last fencing token, if one is wanted
-- ARGV[4]  lease, ms
-- ARGV[5]  owner
-- ARGV[6]  the count before
-- ARGV[7]  the count after: one more, or the same to keep what stands
-- ARGV[8]  how long KEYS[6] lives, ms; 0: for ever
-- ARGV[9]  1 if the owner waits when it is refused: it keeps its place or gets one
-- ARGV[10] the payload that tells a waiter that it is its turn
--
-- {1, now, token}               it does; token is 0 if none is wanted
-- {0, now, pttl, holder, hint}  it is another owner's, or another's turn, for which
--                               hint says when to ask again, ms
-- {-2, now, count}              the count was another one; nothing was done
local wrong = lease_error(ARGV[4])
if wrong then
  return wrong
end
local owner = ARGV[5]
local count = held(KEYS[1], owner)
if count ~= ARGV[6] and not (again and count == ARGV[7]) then
  return {-2, at, tonumber(count)}
end
local free = redis.call('EXISTS', KEYS[1]) == 0
local before = redis.call('LINDEX', KEYS[2], 0)
local head = next_in_line(owner)
if count == '0' and not (free and (not head or head == owner)) then
  if free and head ~= before then
    tell_next(ARGV[10]) -- whoever was told before is gone
  end
  if ARGV[9] == '1' then
    if not redis.call('LPOS', KEYS[2], owner) then
      redis.call('RPUSH', KEYS[2], owner)
      head = head or owner
    end
    redis.call('ZADD', KEYS[4], at + believed, owner)
    local score = at + 2 * believed -- Redisson's clocks are not the server's
    if head ~= owner then
      score = score + patience * others()
    end
    redis.call('ZADD', KEYS[3], score, owner)
    redis.call('PEXPIRE', KEYS[4], memory)
    tend()
  end
  if free then
    return {0, at, -2, '', math.max(1, left(head))}
  end
  local pttl = redis.call('PTTL', KEYS[1])
  return {0, at, pttl, redis.call('HKEYS', KEYS[1])[1], math.max(0, pttl)}
end
local token = 0
if KEYS[6] then
  token, wrong = next_token(KEYS[6])
  if wrong then
    return wrong
  end
  keep_token(KEYS[6], token, ARGV[8])
end
if head then
  drop(owner)
  tend()
end
redis.call('HSET', KEYS[1], owner, ARGV[7])
raise(KEYS[1], ARGV[4])
return {1, at, token}
