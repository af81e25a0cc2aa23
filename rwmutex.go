package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// readRecheck is how often a read hold is seen to, whatever its lease. Redisson's
// renewals of a reader beside it shorten the lock to Redisson's own lease, 30 s by
// default, and those of its version 3 this hold's keys, too: they are raised again
// to what was promised, long before that has passed.
const readRecheck = 5 * time.Second

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
	writer := newKind(c, name, "write", protocol.Write{
		Name: name, Fenced: config.fenced, TokenTTL: config.tokenTTL, WritersFirst: config.writersFirst,
	}, config)
	config.fenced = false
	reader := newKind(c, name, "read", protocol.Read{Name: name}, config)
	reader.shared = true
	reader.recheckEvery = readRecheck
	reader.otherSide, writer.otherSide = writer.class, reader.class
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
