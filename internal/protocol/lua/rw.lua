-- like mutex
--
-- The read-write lock: a hash at KEYS[1], which lives at least as long as the longest hold:
--
-- mode         read or write
-- owner        the owner's count of read holds
-- owner:write  its count of write holds
--
-- and a key for each read hold, which lives as long as that hold. A seat is a field of the hash: an owner that reads, or owner:write. The
-- lock has room for ALL; a reader needs 1 of it, a writer ALL. So a release lets in the writer that is first in the waitlist, or all readers
-- before the next writer.
--
-- An owner of ours reads as long as one of its keys lives, whatever the hash says. Of a Redisson owner that is not certain: version 3 renews
-- these keys for only one of several locks, and the hash for all. So a Redisson owner whose keys are gone is taken for a reader until the
-- hash ends. If only such readers are left, the hash lives for as long as Redisson takes to renew it.
--
-- An owner's calls declare its keys, which begin at KEYS[2]. The keys of other readers are built here, with the lock's hash tag, so they
-- are in its slot. While a cluster moves that slot, a script finds keys missing that are on the other node. So a read hold's key is taken
-- for gone only if a command of several keys does not fail.
--
-- An owner requests one side at a time, and none that it would keep from itself. So no waiter holds the lock.

-- fast acquire
-- from common: lease
-- from waitlist: WAITLIST
-- from rw: unspent
local some, usable = 1, false -- an owner nests past all waiters, and reads past them beside its own write
if ARGV[6] == '0' and not ARGV[10] then
  some = redis.pcall('EXISTS', KEYS[1], WAITLIST, YIELD)
  usable = type(some) == 'number'
  if not usable then
    some = redis.call('EXISTS', KEYS[1])
  end
end
if some == 0 and ARGV[7] == '1' then
  -- from common: token
  if KEYS[2] and not token then
    redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[5], '1')
    redis.call('SET', KEYS[2], '1', 'PX', lease)
  else
    redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[5], '1')
  end
  redis.call('PEXPIRE', KEYS[1], lease)
  return token and {1, at, token} or at
end

-- fast release
-- from rw: ALL, unspent
local free
if ARGV[7] == '0' and redis.call('HLEN', KEYS[1]) == 2 and redis.call('HGET', KEYS[1], ARGV[5]) == ARGV[6] then
  if not KEYS[2] then -- it writes, and reads nothing
    free = redis.call('DEL', KEYS[1]) * ALL
  elseif ARGV[6] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then
    free = redis.call('DEL', KEYS[1], KEYS[2]) / 2 * ALL
  end
end

-- ALL is the room of a free lock. SHARE is the room that unlisted waiters get in a yield window.
local ALL = 2 ^ 40
local SHARE = ALL

-- CHANNEL begins the name of the lock's own channel.
local CHANNEL = 'redisson_rwlock'

-- STRIDE is the number of arguments of a renewal.
local STRIDE = 3

-- writes returns the owner of a seat that writes; nil for others. It looks at the end alone: a pattern would search all of a field, which
-- another program may have made megabytes long.
local function writes(seat)
  return seat and string.sub(seat, -6) == ':write' and string.sub(seat, 1, -7) or nil
end

-- read_key returns the key of an owner's read hold.
local function read_key(owner, i)
  return (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}') .. ':' .. owner .. ':rwlock_timeout:' .. i
end

-- reads returns the count of read holds in the hash. Another program may have written it, and calls look at as many keys; so a number
-- that no owner has counted up to is none.
local function reads(owner)
  local found = redis.call('HGET', KEYS[1], owner) or ''
  return #found < 6 and string.match(found, '^[1-9]%d*$') and found + 0 or 0
end

-- unspent is the number of keys of read holds that the script may still use. All counts of a script come to less, unless another program
-- has written larger ones to Redis, or into an argument: these must not keep the server busy. It stands before all blocks of a script, so
-- that there is one.
local unspent = 200000

-- spend returns how many of n keys of an owner's read holds the script may use, and counts them. A long key costs as much as several,
-- since each use copies it.
-- from rw: unspent
local function spend(n, owner)
  local cost = 1 + math.floor((#KEYS[1] + #owner) / 512)
  n = math.max(0, math.min(n, math.floor(unspent / cost)))
  unspent = unspent - n * cost
  return n
end

-- reading returns an owner's count of read holds; the time, ms, for which at least one of them lives; and whether that is certain. The
-- count is 0 if all its keys have expired, provided that the owner is ours and the script may look at all of them.
-- from common: ours
-- from rw: read_key, reads, spend
local RENEWED_WITHIN = 30000 -- the lease of Redisson's watchdog, by default
local function reading(owner)
  local n = reads(owner)
  local looks, ttl = spend(n, owner), 0
  for i = 1, looks do
    local key = read_key(owner, i)
    local left = redis.call('PTTL', key)
    if left == -1 then
      left = 999999999999 -- another program has removed its expiry
    elseif left == -2 then
      redis.call('EXISTS', KEYS[1], key) -- an error if the key may be on another node
    end
    ttl = math.max(ttl, left)
  end
  if ttl == 0 and n > 0 and not (ours(owner) and looks == n) then
    local lives = redis.call('PTTL', KEYS[1])
    return n, lives > 0 and math.min(lives, RENEWED_WITHIN) or RENEWED_WITHIN, false
  end
  return ttl > 0 and n or 0, ttl, true
end

-- set_reads makes the first n read holds of an owner live for at least a time. Keys beyond from are left from a lock that is gone. It
-- returns the error if call, which is redis.call or redis.pcall, does.
-- from rw: read_key, spend
local function set_reads(call, owner, from, n, ttl)
  for i = 1, spend(n, owner) do
    local key = read_key(owner, i)
    local reply = (i > from or redis.call('PTTL', key) < ttl + 0) and call('SET', key, '1', 'PX', ttl)
    if reply and reply.err then
      return reply
    end
  end
end

-- drop_reads ends an owner's read holds from the first to the last of these.
-- from rw: read_key, spend
local function drop_reads(owner, first, last)
  for i = first, first + spend(last - first + 1, owner) - 1 do
    redis.call('DEL', read_key(owner, i))
  end
end

-- writer returns the owner that writes, and its count; nil if there is none.
-- from rw: writes
local function writer()
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local owner = writes(fields[i])
    if owner then
      return owner, fields[i + 1]
    end
  end
end

-- readers iterates over the fields that count read holds.
-- from rw: writes
local function readers()
  local fields, i = redis.call('HKEYS', KEYS[1]), 0
  return function()
    repeat
      i = i + 1
    until fields[i] ~= 'mode' and not writes(fields[i])
    return fields[i]
  end
end

-- GLANCE is the largest number of other readers that a call looks at.
local GLANCE = 16

-- foreign_reader returns a Redisson client that reads, or nil, among the first few.
-- from common: ours
-- from rw: readers, GLANCE
local function foreign_reader()
  local seen = 0
  for reader in readers() do
    seen = seen + 1
    if not ours(reader) or seen == GLANCE then
      return not ours(reader) and reader or nil
    end
  end
end

-- others returns the time, ms, for which a lock with this time to live is to live for readers that are not among the seats, 0 if there are
-- none; the readers whose holds have ended; and whether one is seen to live.
--
-- That need not be the time of the longest hold. If a reader certainly lives for half of the lock's time or longer, the lock's will do; and
-- also if there are more readers than to look at. But one must be looked at, since Redisson's writers, and evictions, leave locks that
-- outlive all holds. A lock without an expiry gets that of the longest.
-- from rw: readers, reading, GLANCE
local function others(seats, lives)
  local longest, dead, seen = 0, {}, 0
  for reader in readers() do
    if not seats[reader] then
      if seen == GLANCE and lives >= 0 then
        return math.max(longest, lives), dead, longest > 0
      end
      seen = seen + 1
      local _, left, certain = reading(reader)
      longest = math.max(longest, left)
      if left == 0 then
        dead[#dead + 1] = reader
      elseif certain and lives >= 0 and 2 * left >= lives then
        return math.max(longest, lives), dead, true
      end
    end
  end
  return longest, dead, longest > 0
end

-- extend makes a lock that is read live for at least a time. It gives a new lock its mode, and one that has lost its expiry that of the
-- longest hold.
-- from rw: others
local function extend(ttl)
  local lives = redis.call('PTTL', KEYS[1])
  local mode = lives == -1 and redis.call('HGET', KEYS[1], 'mode')
  if mode == 'write' then
    return
  elseif mode then
    ttl = math.max(ttl + 0, (others({}, -1)))
  elseif lives == -1 then
    redis.call('HSET', KEYS[1], 'mode', 'read')
  end
  if lives < ttl + 0 then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end

-- count returns a seat's count: 0 if it does not hold the lock, or if another program has written a value that is no count.
-- from rw: writes, unspent
local function count(seat)
  if not writes(seat) then
    -- from rw: reading
    return (reading(seat))
  end
  local found = redis.call('HGET', KEYS[1], seat)
  return found and string.match(found, '^[1-9]%d*$') and #found < 16 and found + 0 or 0
end

-- in_front reports whether a waiter has a place in front: readers that could join others make way for it.
-- from waitlist: WAITLIST, NEAR, grantable, remove_entry
local function in_front()
  for _ = 1, usable and some > 1 and NEAR or 0 do
    local first = redis.pcall('ZRANGE', WAITLIST, 0, 0, 'WITHSCORES')
    if (tonumber(first[2]) or 0) >= 0 then
      return false
    elseif grantable(first[1]) then
      return true
    end
    remove_entry(first[1])
  end
  return false
end

-- room returns the room for a seat; a holder; whether the seat may overtake waiters; and a reply that ends the call. Readers join readers,
-- and a writer may read. A reader that wants `writes` is let in only beside its own write. The lock is free if all holds have ended.
-- from common: OTHER_KIND
-- from rw: ALL, writes, reading, readers, writer, foreign_reader, in_front
local function room(seat, what)
  local owner, mode = writes(seat), redis.call('HGET', KEYS[1], 'mode')
  if what == 'writes' and redis.call('HEXISTS', KEYS[1], seat .. ':write') == 0 then
    return 0, nil, false, {-2, at, (reading(seat))}
  elseif mode == 'write' then
    local holder = writer()
    local mine = holder and holder == seat
    return mine and ALL or 0, holder, mine, not holder and redis.error_reply(OTHER_KIND)
  elseif mode == 'read' and not owner then
    local front = in_front()
    return front and 0 or ALL - 1, nil, not front
  elseif mode == 'read' then
    if reading(owner) > 0 then
      return 0, owner, false, {-3, at} -- it would wait for itself
    end
    for reader in readers() do
      if reading(reader) > 0 then
        return 0, foreign_reader() or reader, false
      end
      redis.call('HDEL', KEYS[1], reader) -- or each request would look at it again
    end
    redis.call('DEL', KEYS[1])
  elseif redis.call('EXISTS', KEYS[1]) == 1 then
    return 0, nil, false, redis.error_reply(OTHER_KIND)
  end
  return ALL, nil, false
end

-- size returns the room that a seat needs: 0 if it reads already. That of this call does not, or is not a waiter.
-- from rw: ALL, writes, reading
local function size(seat, what, left)
  return writes(seat) and ALL or what and seat ~= ARGV[5] and reading(seat) > 0 and 0 or 1
end

-- take_read raises an owner's count of read holds; see take. A hold gets its key first: the hash must not count one without.
-- from rw: set_reads, drop_reads, extend
local function take_read(owner, from, to, ttl)
  local wrong = set_reads(redis.pcall, owner, from, to + 0, ttl)
  if wrong then
    return wrong
  end
  wrong = redis.pcall('HSET', KEYS[1], owner, to)
  if type(wrong) == 'table' then
    drop_reads(owner, from + 1, to + 0)
    return wrong
  end
  extend(ttl)
end

-- take raises a seat's count from a number to a text, and returns the error if Redis refuses.
-- from common: raise
-- from rw: writes, unspent
local function take(seat, from, to, ttl, what)
  if not writes(seat) then
    -- from rw: take_read
    return take_read(seat, from, to, ttl)
  end
  local wrong = redis.pcall('HSET', KEYS[1], 'mode', 'write', seat, to)
  if type(wrong) == 'table' then
    return wrong
  elseif from == 0 then
    redis.pcall('PEXPIRE', KEYS[1], ttl)
  else
    raise(KEYS[1], ttl)
  end
end

-- keep lowers a seat's count to a text. The read holds that are left live as long as the longest did.
-- from rw: writes, unspent
local function keep(seat, have, to)
  if not writes(seat) then
    -- from rw: reading, set_reads, drop_reads
    local _, ttl = reading(seat)
    set_reads(redis.call, seat, have, to + 0, ttl)
    drop_reads(seat, to + 1, have)
  end
  redis.call('HSET', KEYS[1], seat, to)
end

-- drop releases the lock of seats, which are given with their counts. It returns the room that this makes for waiters; and if that is 0,
-- whether to publish the release message all the same, because the lock may end earlier than waiters were told. A writer goes on as a
-- reader if it reads, too. The keys of readers that are not named are left to expire.
-- from rw: ALL, writes, reading, others, drop_reads
local function drop(seats)
  local mode, lives = redis.call('HGET', KEYS[1], 'mode'), redis.call('PTTL', KEYS[1])
  local owner, longest, dead, seen, _ = nil, 0, {}, true, nil
  for seat in pairs(seats) do
    owner = owner or writes(seat)
  end
  if owner then
    _, longest = reading(owner)
  elseif mode == 'read' and seats[''] then
    redis.call('DEL', KEYS[1])
    return ALL
  elseif mode ~= 'write' then
    longest, dead, seen = others(seats, lives)
  end
  for seat, have in pairs(seats) do
    redis.call('HDEL', KEYS[1], seat)
    drop_reads(seat, 1, writes(seat) and 0 or have)
  end
  if mode == 'write' and not owner then
    return 0
  elseif longest == 0 then
    redis.call('DEL', KEYS[1])
    return ALL
  end
  for i = 1, #dead do
    redis.call('HDEL', KEYS[1], dead[i])
  end
  if longest ~= lives then
    redis.call('PEXPIRE', KEYS[1], longest)
  end
  if owner then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    return ALL - 1
  end
  return 0, not seen or lives - longest > 1000
end

-- idle returns the room for waiters when a seat leaves that holds nothing.
-- from rw: ALL
local function idle()
  local mode = redis.call('HGET', KEYS[1], 'mode')
  return mode == 'read' and ALL - 1 or mode and 0 or ALL
end

-- replaceable returns an error if a seat cannot be replaced, or the reply that its owner goes on holding the other side.
-- from common: OTHER_KIND
-- from rw: writes, writer, reading
local function replaceable(seat)
  local owner, mode = writes(seat), redis.call('HGET', KEYS[1], 'mode')
  if mode ~= 'read' and not (mode == 'write' and writer()) then
    return redis.error_reply(OTHER_KIND)
  elseif owner and reading(owner) > 0 or not owner and redis.call('HEXISTS', KEYS[1], seat .. ':write') == 1 then
    return {-3, at}
  end
end

-- replace gives the lock of an old seat to a new one, which has a count of 1 then, and had this count before. The old one may have had a
-- longer lease, of which the new one does not know.
-- from common: raise
-- from rw: writes, reads, set_reads, drop_reads, extend, others
local function replace(old, new, ttl, had)
  redis.call('HSET', KEYS[1], new, '1')
  if not writes(new) then
    set_reads(redis.call, new, had, 1, ttl)
    drop_reads(old, 1, reads(old))
  end
  redis.call('HDEL', KEYS[1], old)
  if not writes(new) then
    extend(ttl)
    local lives = redis.call('PTTL', KEYS[1])
    local longest = had == 0 and others({}, lives) or lives
    if longest > 0 and longest < lives then
      redis.call('PEXPIRE', KEYS[1], longest)
    end
  elseif had == 0 then
    redis.call('PEXPIRE', KEYS[1], ttl) -- the only holder knows of no longer lease
  else
    raise(KEYS[1], ttl)
  end
end

-- announce publishes the release message for unlisted waiters, and returns the number of receivers. The payload 1 says that no owner writes
-- any more. Redisson wakes only those of its waiters that sleep already, and loses a waiter that was refused and is about to sleep; a 0
-- behind it wakes the next one as well.
-- from common: publish
local function announce(left)
  local reached = publish(ARGV[4])
  if ARGV[4] == '1' then
    publish('0')
  end
  return reached
end

-- received is the number of receivers of the release message, which is published here: as announce does it, but without a function.
-- failed is the error if Redis refuses it, or nil.
local received, failed = 0, nil
if ARGV[2] ~= '' then
  received = redis.pcall(ARGV[3], ARGV[2], ARGV[4])
  failed = type(received) == 'table' and received.err or nil
  if ARGV[4] == '1' then
    redis.pcall(ARGV[3], ARGV[2], '0')
  end
end

-- stay extends a lock that a seat reads; a ttl of 0 changes nothing. It returns the seat's count, and the number of the lock's further keys
-- in the call. A key that another program has overwritten is not held, and must not fail the other renewals of the call. The holds of a
-- writer are renewed as those of a mutex.
-- from common: even_if_full
-- from rw: count, set_reads, extend
local function stay(key, seat, ttl, what)
  KEYS[1] = key
  local n = redis.pcall('HEXISTS', key, seat) == 1 and count(seat) or 0
  if n > 0 and ttl ~= '0' then
    even_if_full('HDEL', key)
    set_reads(redis.call, seat, n, n, ttl)
    extend(ttl)
  end
  return n, what
end

-- holders returns owner, mode, count and time to live of each holder; or nil and an error. An owner can both read and write. The time of
-- a reader is that of its longest hold; a reader whose keys have expired is left out, and so are those behind the first CROWD.
-- from common: OTHER_KIND
-- from rw: writer, readers, reading
local CROWD = 10000 -- Crowd in Go
local function holders()
  local owner, n = writer()
  local mode, all, told = redis.call('HGET', KEYS[1], 'mode'), {}, 0
  if mode ~= 'read' and not (mode == 'write' and owner) and redis.call('EXISTS', KEYS[1]) == 1 then
    return nil, redis.error_reply(OTHER_KIND)
  end
  local function add(name, side, times, left)
    for _, text in ipairs({name, side, tostring(times), string.format('%.0f', left)}) do
      all[#all + 1] = text
    end
  end
  if owner then
    add(owner, 'write', n, redis.call('PTTL', KEYS[1]))
  end
  for reader in readers() do
    local times, left = reading(reader)
    if times > 0 then
      add(reader, 'read', times, left)
      told = told + 1
    end
    if told == CROWD then
      break
    end
  end
  return all
end
