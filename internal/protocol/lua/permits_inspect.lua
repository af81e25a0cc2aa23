-- inspect: what stands in Redis now.
--
-- KEYS[1]  how many permits are available
-- KEYS[2]  the permits that are held
--
-- {1, now, pttl, '0', {id, '', '1', pttl...}, {waiter...}, available}
--
-- Ids are written in hexadecimal digits, as Redisson shows them. The first pttl is
-- that of KEYS[1], the others are those of the permits; -1 never ends. Waiters are the
-- first thousand who stand in line. Of ids that have more than 8 MB together the first are told, since nothing could stop
-- Redis while it rewrites them; one that long is no permit.

-- from line: LINE
-- from permits: free, expired, whole
-- hex has the digits of each byte: an id may be of any length.
local hex = {}
for c = 0, 255 do
  hex[string.char(c)] = string.format('%02x', c)
end
local holders, lives = {}, redis.call('PTTL', KEYS[1])
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
  if lives >= 0 and (pttl < 0 or lives < pttl) then
    pttl = lives -- they end with the semaphore
  end
  local id = string.gsub(held[i], '.', hex)
  for _, text in ipairs({id, '', '1', whole(pttl)}) do
    holders[#holders + 1] = text
  end
end
local waiters = redis.pcall('ZRANGE', LINE, 0, 999)
return {1, at, lives, '0', holders, waiters.err and {} or waiters, free}
