-- Pieces for the read-write lock. The lock is a hash:
--
-- mode         read or write
-- owner        how often the owner reads
-- owner:write  how often it writes
--
-- and each of an owner's read holds has a key of its own beside it, which lives
-- as long as that hold does: an owner of ours reads for as long as one of its keys
-- lives, whatever the hash says. The hash lives at least as long as the longest of
-- all holds.
--
-- Of Redisson's owners that is not certain: its version 3 renews these keys for one
-- lock of several only, and the hash for all. So an owner of its, whose keys are
-- gone, is believed to read until the hash ends. If only such ones are left, the
-- hash lives for as long as it takes them to renew it.
--
-- An owner's keys are declared by its own calls. Those of others are not known
-- beforehand; they are built here, with the lock's tag, so they are in its slot.
--
-- While a cluster moves that slot, some of its keys are on the one node and some on
-- the other, and a script sees what is on the other as missing. So a read hold's key
-- is believed to be gone only if a command of several keys does not fail.

-- read_key is the key of an owner's read hold. prefix is what stands in front of
-- the owner.
local function read_key(prefix, owner, i)
  return prefix .. owner .. ':rwlock_timeout:' .. i
end

-- grace is the lease of Redisson's watchdog, by default, in ms.
local grace = 30000

-- ours says whether an owner is one of holdfast's, by the version of its client's
-- UUID.
local function ours(owner)
  return string.sub(owner, 15, 15) == '8'
end

-- reads is the count of reads that stands in the hash. Anybody may have written it, and calls
-- look at as many keys; so what nobody has counted up to is none.
local function reads(key, owner)
  local count = redis.call('HGET', key, owner) or ''
  return #count < 6 and string.match(count, '^[1-9]%d*$') and tonumber(count) or 0
end

-- reading says how often the owner reads, and for how many ms at least one of
-- these holds lives, and whether that is sure. A count whose keys have all expired
-- is 0 if it is ours.
-- from rw: read_key, grace, ours, reads
local function reading(key, prefix, owner)
  local count = reads(key, owner)
  local ttl = 0
  for i = 1, count do
    local read = read_key(prefix, owner, i)
    local left = redis.call('PTTL', read)
    if left == -1 then
      left = 999999999999 -- somebody has taken its expiry away
    elseif left == -2 then
      redis.call('EXISTS', key, read) -- an error if the key may be on another node
    end
    ttl = math.max(ttl, left)
  end
  if ttl == 0 and count > 0 and not ours(owner) then
    local lives = redis.call('PTTL', key)
    return count, lives > 0 and math.min(lives, grace) or grace, false
  elseif ttl == 0 then
    count = 0
  end
  return count, ttl, true
end

-- keep_reads makes the owner, who has read from times, read count times, for at
-- least ttl. Keys beyond from are left from a lock that is gone.
-- from rw: read_key
local function keep_reads(key, prefix, owner, from, count, ttl)
  redis.call('HSET', key, owner, count)
  for i = 1, count do
    local read = read_key(prefix, owner, i)
    if i > from or redis.call('PTTL', read) < tonumber(ttl) then
      redis.call('SET', read, '1', 'PX', ttl)
    end
  end
end

-- drop_reads ends the owner's read holds from the first to the last of these.
-- from rw: read_key
local function drop_reads(prefix, owner, first, last)
  for i = first, last do
    redis.call('DEL', read_key(prefix, owner, i))
  end
end

-- announce_write announces that nobody writes any more. Redisson lets only those
-- of its waiters go for the payload 1 who sleep already, and loses one who has just
-- been refused and is about to; a 0 after it lets the next one go, too.
-- from common: publish
local function announce_write(payload)
  publish(payload)
  publish('0')
end

-- other_kind says whether there is something that is no read-write lock: it has no mode, or
-- nobody who could have it.
-- from rw: writer
local function other_kind(key)
  local mode = redis.call('HGET', key, 'mode')
  return mode ~= 'read' and not (mode == 'write' and writer(key)) and redis.call('EXISTS', key) == 1
end

-- writer says who writes, and how often, or nil.
local function writer(key)
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local owner = string.match(fields[i], '^(.*):write$')
    if owner then
      return owner, fields[i + 1]
    end
  end
end

-- readers goes through the fields that count reads.
local function readers(key)
  local fields, i = redis.call('HKEYS', key), 0
  return function()
    repeat
      i = i + 1
    until fields[i] ~= 'mode' and not string.match(fields[i] or '', ':write$')
    return fields[i]
  end
end

-- glance is how many of the others one who leaves looks at, at most.
local glance = 16

-- others says for how many ms a lock, which now lives for lives, is to live for
-- readers other than those in leaving, 0 if there are none; which of them have
-- holds that have ended; and whether it has seen one who lives.
--
-- That need not be the longest of their holds. If one of them lives for sure, for
-- half of lives or longer, lives will do; and so it will if they are too many to
-- look at all of them. But one must be looked at, since Redisson's writers, and
-- evictions, leave locks that outlive everybody's holds. A lock without an expiry
-- gets that of the longest.
-- from rw: readers, reading, glance
local function others(key, prefix, leaving, lives)
  local longest, dead, seen = 0, {}, 0
  for reader in readers(key) do
    if not leaving[reader] then
      if seen == glance and lives >= 0 then
        return math.max(longest, lives), dead, longest > 0
      end
      seen = seen + 1
      local _, left, sure = reading(key, prefix, reader)
      longest = math.max(longest, left)
      if left == 0 then
        dead[#dead + 1] = reader
      elseif sure and lives >= 0 and 2 * left >= lives then
        return math.max(longest, lives), dead, true
      end
    end
  end
  return longest, dead, longest > 0
end

-- raise_all is raise for a lock that others may hold, too: if somebody has taken
-- its expiry away, it gets that of the longest of all holds.
-- from common: raise
-- from rw: others
local function raise_all(key, prefix, ttl)
  if redis.call('PTTL', key) ~= -1 then
    raise(key, ttl)
  elseif redis.call('HGET', key, 'mode') == 'read' then
    redis.call('PEXPIRE', key, math.max(tonumber(ttl), (others(key, prefix, {}, -1))))
  end
end

-- bury drops readers whose holds have ended.
local function bury(key, dead)
  for i = 1, #dead do
    redis.call('HDEL', key, dead[i])
  end
end

-- read_on leaves the lock, which lives for lives, to the others for so long, or
-- ends it if there are none.
-- from rw: bury
local function read_on(key, lives, longest, dead)
  if longest == 0 then
    redis.call('DEL', key)
    return
  end
  bury(key, dead)
  if longest ~= lives then
    redis.call('PEXPIRE', key, longest)
  end
end

-- write_no_more ends the owner's write hold. If it still reads, the lock is one
-- for reading from now on.
-- from rw: reading
local function write_no_more(key, prefix, owner)
  local _, ttl = reading(key, prefix, owner)
  if ttl == 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('HDEL', key, owner .. ':write')
  redis.call('HSET', key, 'mode', 'read')
  redis.call('PEXPIRE', key, ttl)
end
