package holdfast

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// reservation is how long a waiter is believed to be there for whom others make
// way. Waiters ask again well within it.
const reservation = 10 * time.Second

// readUpkeep is how often a read hold is seen to, whatever its lease. Redisson's
// renewals of a reader beside it shorten the lock to Redisson's own lease, 30 s by
// default, and those of its version 3 this hold's keys, too: they are raised again
// to what was promised, long before that has passed.
const readUpkeep = 5 * time.Second

// RWMutex is a reentrant lock with two sides: many owners hold it for reading, or
// one for writing. Get one from [Client.NewRWMutex]. All methods are safe for
// concurrent use.
//
// The writer may read as well, and go on reading when it writes no more: that is
// how to downgrade. Lock for reading under WithOwner(ctx, w.Owner()), then unlock
// the writer's hold; under w.Context() the reader's context would end with it. A
// reader cannot become the writer: it would wait for itself, so Lock returns
// [ErrReentrant] instead.
//
// In Redis it is a hash at the lock's name: mode, the readers' owners, and the
// writer's with :write behind it, each with its count. Each read hold has a key
// {name}:owner:rwlock_timeout:n beside it, which expires with that hold. Releases
// are announced on redisson_rwlock:{name}. Redisson: RReadWriteLock.
type RWMutex struct {
	reader ReadMutex
	writer WriteMutex
}

// ReadMutex is the side of an [RWMutex] that many hold at once. Redisson:
// RReadWriteLock.readLock.
//
// Lock waits for the writer to leave, and, if one waits with [WritersFirst], for
// it to come and go. Locked, Inspect and ForceUnlock are about the readers: a
// lock that is held for writing only is not locked here.
type ReadMutex struct {
	lock
}

// WriteMutex is the side of an [RWMutex] that one holds alone. Redisson:
// RReadWriteLock.writeLock.
//
// Lock waits until everybody has left; an owner that holds the lock for reading
// gets [ErrReentrant]. Locked, Inspect and ForceUnlock are about the writer.
type WriteMutex struct {
	lock
}

// NewRWMutex returns the read-write lock of the given name, for which the rules
// of [Client.NewMutex] hold. It does no I/O. The options are [WritersFirst],
// [NonReentrant], which is about each side for itself, and [Fenced] with
// [TokenTTL], which gives tokens to writers only. Redisson: getReadWriteLock.
func (c *Client) NewRWMutex(name string, options ...MutexOption) *RWMutex {
	config := mutexOptions(options)
	config.without(config.polling, "Polling", "the waiters of a read-write lock listen")
	writer := newKind(c, name, "write", write{name: name, config: config}, config)
	config.fenced = false
	reader := newKind(c, name, "read", read{name: name}, config)
	reader.shared = true
	reader.upkeep = readUpkeep
	reader.twoSided, writer.twoSided = true, true
	return &RWMutex{reader: ReadMutex{lock{reader}}, writer: WriteMutex{lock{writer}}}
}

// Name returns the lock's name.
func (m *RWMutex) Name() string { return m.writer.Name() }

// Reader returns the side for reading.
func (m *RWMutex) Reader() *ReadMutex { return &m.reader }

// Writer returns the side for writing.
func (m *RWMutex) Writer() *WriteMutex { return &m.writer }

var (
	_ Locker = (*ReadMutex)(nil)
	_ Locker = (*WriteMutex)(nil)
)

// read is the dialect of the readers.
type read struct{ name string }

// keys are first, and then the owner's read holds.
func (l read) keys(owner Owner, count int, first ...string) []string {
	for i := range count {
		first = append(first, wire.ReadHold(l.name, owner.String(), i+1))
	}
	return first
}

func (l read) acquire(w wish) request {
	return request{
		script: script.Read.Acquire, keys: l.keys(w.owner, w.to, l.name, wire.Next(l.name)),
		args: []string{
			millis(w.lease), w.owner.String(), strconv.Itoa(w.from), strconv.Itoa(w.to), wire.ReadPrefix(l.name),
		},
	}
}

func (l read) release(owner Owner, from, to int) request {
	return request{
		script: script.Read.Release, keys: l.keys(owner, from, l.name), channel: l.channel(owner),
		args: []string{
			wire.Released, owner.String(), strconv.Itoa(from), strconv.Itoa(to), wire.ReadPrefix(l.name),
		},
	}
}

func (l read) renew(owner Owner, count int, ttl time.Duration) request {
	return request{
		script: script.Read.Renew, keys: l.keys(owner, count, l.name),
		args: []string{owner.String(), millis(ttl), strconv.Itoa(count), wire.ReadPrefix(l.name)},
	}
}

func (l read) adopt(w wish, other Owner) request {
	return request{
		script: script.Read.Adopt, keys: l.keys(w.owner, 1, l.name), channel: l.channel(other), acks: true,
		args: []string{millis(w.lease), w.owner.String(), other.String(), wire.Released, wire.ReadPrefix(l.name)},
	}
}

func (l read) force(holders []string) request {
	return request{
		script: script.Read.Force, keys: []string{l.name}, channel: wire.RWChannel(l.name),
		args: append([]string{wire.Released, wire.ReadPrefix(l.name)}, holders...),
	}
}

func (l read) inspect() request {
	return request{script: script.Read.Inspect, keys: []string{l.name}, args: []string{wire.ReadPrefix(l.name)}}
}

func (l read) size() request { return rwSize(l.name, l.inspect().keys) }

func (l read) aside() []string { return nil }

// rwSize asks for the size of both sides, which are one thing in Redis.
func rwSize(name string, keys []string) request {
	return request{
		script: script.Size, keys: append(keys, wire.Next(name)), args: []string{wire.ReadPrefix(name)},
	}
}

func (read) leave(Owner) request { return request{} }

func (l read) channel(Owner) string { return wire.RWChannel(l.name) }

// write is the dialect of the writers.
type write struct {
	name   string
	config mutexConfig
}

func (l write) acquire(w wish) request {
	keys := []string{l.name, wire.Next(l.name)}
	if w.token {
		keys = append(keys, wire.Token(l.name))
	}
	reserve := time.Duration(0)
	if w.waiting && l.config.writersFirst {
		reserve = reservation
	}
	return request{
		script: script.Write.Acquire, keys: keys,
		args: []string{
			millis(w.lease), w.owner.String(), strconv.Itoa(w.from), strconv.Itoa(w.to), millis(l.config.tokenTTL),
			wire.ReadPrefix(l.name), millis(reserve),
		},
	}
}

func (l write) release(owner Owner, from, to int) request {
	return request{
		script: script.Write.Release, keys: []string{l.name}, channel: wire.RWChannel(l.name),
		args: []string{
			wire.WriterReleased, owner.String(), strconv.Itoa(from), strconv.Itoa(to), wire.ReadPrefix(l.name),
		},
	}
}

func (l write) renew(owner Owner, _ int, ttl time.Duration) request {
	return request{
		script: script.Write.Renew, keys: []string{l.name}, args: []string{wire.Writer(owner.String()), millis(ttl)},
	}
}

func (l write) adopt(w wish, other Owner) request {
	keys := []string{l.name}
	if w.token {
		keys = append(keys, wire.Token(l.name))
	}
	return request{
		script: script.Write.Adopt, keys: keys, channel: l.channel(other), acks: true,
		args: []string{
			millis(w.lease), w.owner.String(), other.String(), millis(l.config.tokenTTL), wire.Released,
			wire.ReadPrefix(l.name),
		},
	}
}

func (l write) force(holders []string) request {
	return request{
		script: script.Write.Force, keys: []string{l.name}, channel: wire.RWChannel(l.name),
		args: append([]string{wire.WriterReleased, wire.ReadPrefix(l.name)}, holders...),
	}
}

func (l write) inspect() request {
	keys := []string{l.name}
	if l.config.fenced {
		keys = append(keys, wire.Token(l.name))
	}
	return request{script: script.Write.Inspect, keys: keys}
}

func (l write) size() request { return rwSize(l.name, l.inspect().keys) }

func (l write) aside() []string { return []string{wire.Next(l.name)} }

func (l write) leave(owner Owner) request {
	if !l.config.writersFirst {
		return request{}
	}
	return request{
		script: script.Write.Leave, keys: []string{wire.Next(l.name)}, channel: wire.RWChannel(l.name),
		args: []string{wire.Released, owner.String()},
	}
}

func (l write) channel(Owner) string { return wire.RWChannel(l.name) }
