-- Stands before the scripts of the read-write lock. The lock is a hash:
--
-- mode         read or write
-- owner        how often the owner reads
-- owner:write  how often it writes
--
-- and each of an owner's read holds has a key of its own beside it, which lives
-- as long as that hold does: an owner reads for as long as one of its keys lives,
-- whatever the hash says. The hash lives as long as the longest of all holds.
--
-- An owner's keys are declared by its own calls. Those of others are not known
-- beforehand; they are built here, with the lock's tag, so they are in its slot.

-- read_key is the key of an owner's read hold. prefix is what stands in front of
-- the owner.
local function read_key(prefix, owner, i)
  return prefix .. owner .. ':rwlock_timeout:' .. i
end

-- reading says how often the owner reads, and for how many ms at least one of
-- these holds lives. A count whose keys have all expired is 0.
local function reading(key, prefix, owner)
  local count = tonumber(redis.call('HGET', key, owner) or '0') or 0
  local ttl = 0
  for i = 1, count do
    local left = redis.call('PTTL', read_key(prefix, owner, i))
    if left == -1 then
      left = 999999999999 -- somebody has taken its expiry away
    end
    ttl = math.max(ttl, left)
  end
  if ttl == 0 then
    count = 0
  end
  return count, ttl
end

-- keep_reads makes the owner read so many times, for at least ttl.
local function keep_reads(key, prefix, owner, count, ttl)
  redis.call('HSET', key, owner, count)
  for i = 1, count do
    local read = read_key(prefix, owner, i)
    if redis.call('PTTL', read) < tonumber(ttl) then
      redis.call('SET', read, '1', 'PX', ttl)
    end
  end
end

-- drop_reads ends the owner's read holds from the first to the last of these.
local function drop_reads(prefix, owner, first, last)
  for i = first, last do
    redis.call('DEL', read_key(prefix, owner, i))
  end
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

-- readers calls f with each field that counts reads, its count and how long it
-- lives, until f returns true.
local function readers(key, prefix, f)
  local fields = redis.call('HKEYS', key)
  for i = 1, #fields do
    if fields[i] ~= 'mode' and not string.match(fields[i], ':write$') then
      if f(fields[i], reading(key, prefix, fields[i])) then
        return
      end
    end
  end
end

-- others says for how many ms the longest hold of a reader other than the owner
-- lives, and which of them have holds that have ended. If any is true, the first
-- who lives will do.
local function others(key, prefix, owner, any)
  local longest, dead = 0, {}
  readers(key, prefix, function(reader, _, left)
    if reader ~= owner and left > 0 then
      longest = math.max(longest, left)
      return any
    elseif reader ~= owner then
      dead[#dead + 1] = reader
    end
  end)
  return longest, dead
end

-- read_on leaves the lock to the others, or ends it if there are none.
local function read_on(key, longest, dead)
  if longest == 0 then
    redis.call('DEL', key)
    return
  end
  for i = 1, #dead do
    redis.call('HDEL', key, dead[i])
  end
  redis.call('PEXPIRE', key, longest)
end

-- write_no_more ends the owner's write hold. If it still reads, the lock is one
-- for reading from now on.
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
