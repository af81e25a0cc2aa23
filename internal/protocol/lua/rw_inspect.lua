-- inspect: what stands in Redis now. Changes nothing.
--
-- KEYS[1]  the lock
-- KEYS[2]  the last fencing token, if one is wanted
-- ARGV[4]  what stands in front of an owner in the keys of its read holds
--
-- {1, now, pttl, token, {owner, mode, count, pttl...}, {waiter...}}
--
-- Waiters are the fields that the first thousand who stand in line will have.
--
-- pttl is -2 if nobody holds it. mode is read or write; one owner can have both. A
-- reader's pttl is that of the longest of its holds; one whose keys have expired is
-- not told, nor is any behind the first CROWD.

-- from common: OTHER_KIND
-- from line: LINE
-- from rw: other_kind, writer, readers, reading
local CROWD, told = 10000, 0 -- Crowd in Go
if other_kind(KEYS[1]) then
  return redis.error_reply(OTHER_KIND)
end
local token = KEYS[2] and redis.call('GET', KEYS[2]) or '0'
local pttl, found = redis.call('PTTL', KEYS[1]), {}
local function tell(owner, mode, count, left)
  for _, text in ipairs({owner, mode, tostring(count), string.format('%.0f', left)}) do
    found[#found + 1] = text
  end
end
local owner, count = writer(KEYS[1])
if owner then
  tell(owner, 'write', count, pttl)
end
for reader in readers(KEYS[1]) do
  local reads, left = reading(KEYS[1], ARGV[4], reader)
  if reads > 0 then
    tell(reader, 'read', reads, left)
    told = told + 1
    if told == CROWD then
      break
    end
  end
end
local waiters = redis.pcall('ZRANGE', LINE, 0, 999)
return {1, at, found[1] and pttl or -2, token, found, waiters.err and {} or waiters}
