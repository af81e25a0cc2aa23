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
--
-- Those who wait stand in line, see line.lua, as the field that they will have in the hash: so a script knows the
-- side. Of each process and side it is the head of the queue.
--
--             the lock is free          readers hold it           a writer holds it
--   reads     the first in line before  joins, past the line      stands in line
--   writes    the first in line before  stands in line            stands in line
--
-- "Free" is what nobody holds in fact, whatever the hash says; who finds that out lets those in line in first. A
-- release that makes it free lets in the writer that is first, or all readers before the next writer: see admit.
-- One that leaves readers lets in nobody, and one that makes a writer a reader lets in the readers before the next
-- writer. While a writer has reserved the lock no reader is let in: that writer has it before those readers who
-- stand before it.
--
-- An owner asks for one side at a time, and for none that it would wait for itself to leave. So nobody in line holds
-- the lock; what is left in line of one that does is dropped. What an owner has been granted, and did not ask for
-- in the end, is given back by its leave, on the side where it stood.

-- read_key is the key of an owner's read hold. prefix is what stands in front of
-- the owner.
local function read_key(prefix, owner, i)
  return prefix .. owner .. ':rwlock_timeout:' .. i
end

-- grace is the lease of Redisson's watchdog, by default, in ms.
local grace = 30000

-- reads is the count of reads that stands in the hash. Anybody may have written it, and calls
-- look at as many keys; so what nobody has counted up to is none.
local function reads(key, owner)
  local count = redis.call('HGET', key, owner) or ''
  return #count < 6 and string.match(count, '^[1-9]%d*$') and tonumber(count) or 0
end

-- spend returns how many of n keys of an owner's read holds the script may still use. All counts of a script come to less,
-- unless somebody has written larger ones to Redis, or into an argument: these must not keep the server busy. A long key costs
-- as much as several, since each use copies it.
local unspent = 200000
local function spend(n, prefix, owner)
  local cost = 1 + math.floor((#prefix + #owner) / 512)
  n = math.max(0, math.min(n, math.floor(unspent / cost)))
  unspent = unspent - n * cost
  return n
end

-- reading says how often the owner reads, and for how many ms at least one of
-- these holds lives, and whether that is sure. A count whose keys have all expired
-- is 0 if it is ours, and if the script may still look at all of them.
-- from common: ours
-- from rw: read_key, grace, reads, spend
local function reading(key, prefix, owner)
  local count = reads(key, owner)
  local looks, ttl = spend(count, prefix, owner), 0
  for i = 1, looks do
    local read = read_key(prefix, owner, i)
    local left = redis.call('PTTL', read)
    if left == -1 then
      left = 999999999999 -- somebody has taken its expiry away
    elseif left == -2 then
      redis.call('EXISTS', key, read) -- an error if the key may be on another node
    end
    ttl = math.max(ttl, left)
  end
  if ttl == 0 and count > 0 and not (ours(owner) and looks == count) then
    local lives = redis.call('PTTL', key)
    return count, lives > 0 and math.min(lives, grace) or grace, false
  elseif ttl == 0 then
    count = 0
  end
  return count, ttl, true
end

-- keep_reads makes the owner, who has read from times, read count times, for at
-- least ttl. Keys beyond from are left from a lock that is gone.
-- from rw: read_key, spend
local function keep_reads(key, prefix, owner, from, count, ttl)
  redis.call('HSET', key, owner, count)
  for i = 1, spend(count, prefix, owner) do
    local read = read_key(prefix, owner, i)
    if i > from or redis.call('PTTL', read) < tonumber(ttl) then
      redis.call('SET', read, '1', 'PX', ttl)
    end
  end
end

-- drop_reads ends the owner's read holds from the first to the last of these.
-- from rw: read_key, spend
local function drop_reads(prefix, owner, first, last)
  for i = first, first + spend(last - first + 1, prefix, owner) - 1 do
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

-- writes returns the owner of the field of one who writes, or nil. It looks at the end alone: a pattern would look for it everywhere in what somebody
-- has written there, megabytes perhaps.
local function writes(field)
  if field and string.sub(field, -6) == ':write' then
    return string.sub(field, 1, -7)
  end
end

-- writer says who writes, and how often, or nil.
-- from rw: writes
local function writer(key)
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local owner = writes(fields[i])
    if owner then
      return owner, fields[i + 1]
    end
  end
end

-- readers goes through the fields that count reads.
-- from rw: writes
local function readers(key)
  local fields, i = redis.call('HKEYS', key), 0
  return function()
    repeat
      i = i + 1
    until fields[i] ~= 'mode' and not writes(fields[i])
    return fields[i]
  end
end

-- glance is how many of the others one who leaves looks at, at most.
local glance = 16

-- foreign_reader is one of Redisson's who reads, or nil, among the first few.
-- from common: ours
-- from rw: readers, glance
local function foreign_reader(key)
  local seen = 0
  for reader in readers(key) do
    seen = seen + 1
    if not ours(reader) or seen == glance then
      return not ours(reader) and reader or nil
    end
  end
end

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

-- NEXT is the writer who is next. What gives back does not declare it as a key.
-- from line: LINE
local NEXT = 'holdfast_next' .. string.sub(LINE, 14)

-- enter has one in line hold the lock for lease ms, as its acquire would, and says whether Redis has taken that.
-- fresh says that nobody holds it yet. writer is its owner if it writes.
-- from rw: read_key, raise_all
local function enter(prefix, field, writer, lease, fresh)
  if writer then
    local new = redis.pcall('HSET', KEYS[1], 'mode', 'write', field, '1')
    redis.pcall('PEXPIRE', KEYS[1], lease)
    return new == 2 -- else a cluster is moving the lock, and has not moved the line
  end
  local read = read_key(prefix, field, 1)
  if redis.pcall('SET', read, '1', 'PX', lease).err then
    return false
  elseif type(redis.pcall('HSET', KEYS[1], 'mode', 'read', field, '1')) ~= 'number' then
    redis.pcall('DEL', read)
    return false
  elseif fresh then
    redis.pcall('PEXPIRE', KEYS[1], lease)
  else
    raise_all(KEYS[1], prefix, lease)
  end
  return true
end

-- tell_writer has the first writer in line ask at once.
-- from common: publish
-- from line: LINE, FIRST, ask_of, channel_of, ask_again
-- from rw: writes
local function tell_writer()
  for _, field in ipairs(redis.pcall('ZRANGE', LINE, 0, FIRST - 1)) do
    local number = writes(field) and ask_of(field)
    if number then
      publish(ask_again(number, 0), channel_of(field))
      return
    end
  end
end

-- admit lets those in line in who may have the lock now, MOST at most, and drops those who do not listen: the
-- writer that is first, if nobody holds it; or the readers before the next writer, also if others read. It says how
-- many have got in, and whether me, the field of one who asks, is among them. That one needs no message, and is
-- not in the hash yet.
--
-- If a writer has reserved the lock, it is the first if else a reader would be. If it does not stand in line, it
-- listens elsewhere, or has died: readers wait until it has come, or the reservation ends. It is gone when its writer
-- has got in, or been dropped; the next one is told to ask, as it may want to reserve the lock in its turn.
-- from common: publish
-- from line: LINE, listening, step_out
-- from rw: NEXT, enter, reading, tell_writer, writes
local MOST, LONGEST_RESERVED = 64, 60000
local function admit(prefix, me)
  local found = redis.pcall('EXISTS', KEYS[1], LINE) -- an error while a cluster moves the slot
  local reads = type(found) == 'number' and redis.pcall('HGET', KEYS[1], 'mode') == 'read'
  if type(found) ~= 'number' or found == 2 and not reads then
    return 0, false
  end
  local reserved = redis.pcall('GET', NEXT)
  local left = type(reserved) == 'string' and redis.pcall('PTTL', NEXT)
  if not (type(left) == 'number' and left >= 0 and left <= LONGEST_RESERVED and #reserved <= 4096) then
    reserved = nil
  end
  local got, mine, last, gone = 0, false, false, nil
  local line, i = redis.pcall('ZRANGE', LINE, 0, MOST - 1), 1
  while line[i] and not last do
    local field = line[i]
    local writer = writes(field)
    if not writer and reserved then
      field, writer = reserved .. ':write', reserved
      if type(redis.pcall('ZRANK', LINE, field)) ~= 'number' then
        break
      end
    else
      i = i + 1
    end
    if field ~= gone then
      if writer and (reads or got > 0) then
        break
      end
      local number, lease, channel = listening(field)
      step_out(field)
      if field == me then
        got, mine, last = got + 1, true, writer
      elseif number and (writer or reading(KEYS[1], prefix, field) == 0) then
        if not enter(prefix, field, writer, lease, not reads and got == 0) then
          break
        end
        got, last = got + 1, writer
        publish(number, channel)
      end
      if writer and writer == reserved then
        redis.pcall('DEL', NEXT)
        tell_writer()
        reserved, gone = nil, field
      end
    end
  end
  return got, mine
end

-- in_turn has those in line have the lock first, which is free, before me asks for it: see admit. It returns
-- whether me is among them, and for how long to wait, ms, if the lock is left to others instead, and me is to stand
-- in line.
-- from line: LINE, left_to
-- from rw: admit
local function in_turn(prefix, me, stands)
  local hint, takes = left_to('redisson_rwlock' .. string.sub(LINE, 14), stands)
  if hint or takes then
    return false, hint
  end
  local _, mine = admit(prefix, me)
  return mine
end

-- move_on has others have what one has left: those in line, and whoever listens where Redisson does. It returns how
-- many of these have heard, and 1 if one in line has got in, else 0. more is what to publish behind the payload.
-- ours is 1 if the one who has left listens there, too.
-- from common: publish
-- from line: LINE, tell, leave_turn, listeners
-- from rw: admit
local function move_on(prefix, more, ours)
  local stand, got = redis.pcall('EXISTS', LINE, TURN), 0
  if type(stand) == 'number' and stand > 0 then
    if
      ARGV[2] ~= '' and (listeners(ARGV[2]) or 0) - (ours or 0) > 0 and redis.call('EXISTS', KEYS[1]) == 0
      and leave_turn(tonumber(redis.pcall('ZCARD', LINE)) or 0) > 0
    then
      tell(1)
    else
      got = admit(prefix)
      if got > 0 and redis.call('HGET', KEYS[1], 'mode') == 'write' then
        return 0, 1
      end
    end
  end
  local heard = publish(ARGV[4])
  if more then
    publish(more)
  end
  return heard - (ours or 0), math.min(got, 1)
end
