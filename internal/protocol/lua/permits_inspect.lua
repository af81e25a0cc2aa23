-- inspect: reads the state of a semaphore. Changes nothing but what has expired.
--
-- KEYS[1]  the number of available permits
-- KEYS[2]  the held permits
--
-- {1, now, pttl, '0', {id, '', '1', pttl...}, {seat...}, available}
--
-- Ids are written in hexadecimal digits, as Redisson shows them. The first pttl is that of KEYS[1], the others are those of the permits; -1
-- never ends. The seats are the first thousand entries of the waitlist. Of ids that have more than 8 MB together the first are named, since
-- nothing could stop Redis while it rewrites them; one that long is no permit.

-- from waitlist: WAITLIST
-- from kind: available
-- hex has the digits of each byte: an id may be of any length.
local hex = {}
for c = 0, 255 do
  hex[string.char(c)] = string.format('%02x', c)
end
local holders, ttl = {}, redis.call('PTTL', KEYS[1])
local held = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
local bytes = 0
for i = 1, #held, 2 do
  bytes = bytes + #held[i]
  if bytes > 8 * 1024 * 1024 then
    if i == 1 then
      return redis.error_reply('WRONGTYPE a permit has an id of more than 8 MB')
    end
    break
  end
  local score = tonumber(held[i + 1])
  local pttl = score >= 922337203685477 and -1 or math.max(score - at, 0)
  if ttl >= 0 and (pttl < 0 or ttl < pttl) then
    pttl = ttl -- they end with the semaphore
  end
  local id = string.gsub(held[i], '.', hex)
  for _, text in ipairs({id, '', '1', string.format('%.0f', pttl)}) do
    holders[#holders + 1] = text
  end
end
local waiters = redis.pcall('ZRANGE', WAITLIST, 0, 999)
return {1, at, ttl, '0', holders, waiters.err and {} or waiters, available}
