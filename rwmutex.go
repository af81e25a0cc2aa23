package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// RWMutex is a reentrant lock with two sides, as [sync.RWMutex]: many owners hold it for reading, or one for writing. Get
// one from [Client.NewRWMutex].
//
// Lock, TryLock, Adopt and ForceUnlock are the writer's. Waiters of several processes have their turns as they came, as a
// rule: the writer that is first, or the readers before the next writer. Readers join readers, too. The writer may read as
// well, and go on reading when it writes no more: see [RWMutex.Downgrade]. A reader cannot become the writer: Lock returns
// [ErrReentrant]. Redisson: RReadWriteLock; Lock is its writeLock's.
type RWMutex struct {
	lock
	reader RLocker
}

// RLocker is the side of an [RWMutex] that many hold at once, as a lock of its own. Get it from
// [RWMutex.RLocker]. Redisson: RReadWriteLock.readLock.
type RLocker struct {
	lock
}

// The modes in which a read-write lock is held: see [Holder].
const (
	ModeRead  = "read"
	ModeWrite = "write"
)

// RLocker returns the side for reading, for what takes a [Locker].
func (m *RWMutex) RLocker() *RLocker { return &m.reader }

// RLock is [RLocker.Lock] of the side for reading.
func (m *RWMutex) RLock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return m.reader.Lock(ctx, options...)
}

// TryRLock is [RLocker.TryLock] of the side for reading.
func (m *RWMutex) TryRLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return m.reader.TryLock(ctx, options...)
}

// Lock acquires the lock for writing, as [Mutex.Lock] does: it waits until everybody else has left. [ErrReentrant] says
// besides that the owner reads, and does not write. Redisson: writeLock().lock.
func (m *RWMutex) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return m.acquire(ctx, options)
}

// TryLock is Lock without waiting, as [Mutex.TryLock] is. Redisson: writeLock().tryLock.
func (m *RWMutex) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return m.try(ctx, options)
}

// Adopt takes over a write hold, as [Mutex.Adopt] does. [ErrReentrant] says besides that the owner reads as well.
func (m *RWMutex) Adopt(ctx context.Context, owner Owner, options ...TryOption) (*Hold, error) {
	return m.adopt(ctx, owner, options)
}

// Inspect returns how the lock stands in Redis, with the holders of both sides. It asks
// as [Mutex.Inspect] does, and its errors are the same. Redisson has such questions about each side.
func (m *RWMutex) Inspect(ctx context.Context) (State, error) { return m.inspect(ctx) }

// ForceUnlock takes the lock from its writer, with what that reads, as [Mutex.ForceUnlock] does. Other readers
// keep it: [RLocker.ForceUnlock] is for them. Redisson: writeLock().forceUnlock.
func (m *RWMutex) ForceUnlock(ctx context.Context, from ...Owner) (bool, error) {
	return force(ctx, m.side(), from, m.reader.side())
}

// Downgrade gives back a write hold of this lock and returns a read hold of the same owner; no other writer gets in
// between. The lease is the write hold's, cut to what is left of its [WithMaxHold] time; the context is as that of a Lock
// under the context which the write hold was acquired under. The write hold's context has ended. If the owner has other
// write holds, it goes on writing by those.
//
// It returns within twice the client's timeout. If it returns an error, the write hold stands as it was, unless the error
// matches [ErrLost], [ErrNotHeld] or [ErrClosed]: it is gone; or [ErrInvalid]: it is no write hold of this lock. If the
// context that the write hold was acquired under has ended, the error matches that context's Err, but not its cause. Any
// other error is one of TryLock's. A release without an answer is repeated in the background, as that of [Hold.Unlock],
// and OnError is told. Redisson: readLock().lock and writeLock().unlock, one after the other.
func (m *RWMutex) Downgrade(write *Hold) (*Hold, error) {
	if write == nil || write.handle == nil || write.handle.Mode != m.handle.Mode || !write.handle.Same(&m.handle.Lock) {
		return nil, invalid("hold: %q is not held for writing by it", m.handle.Name)
	}
	if err := write.core.Err(); err != nil {
		return nil, err
	}
	c, outer := m.handle.client, write.one.Outer()
	lease, fixed := write.one.Terms()
	read, err := m.reader.handle.acquire(write.one.Nest(), Owner{}, &lockConfig{
		Args: engine.Args{Lease: lease, Fixed: fixed, Cuts: true, OneTry: true}, hooks: write.hooks[len(c.config.hooks):],
	})
	if err != nil {
		return nil, cmp.Or(write.core.Err(), m.notDowngraded(outer, err))
	}
	owner := write.Owner().text
	switch err := write.Unlock(); {
	case errors.Is(err, ErrLost), errors.Is(err, ErrNotHeld), errors.Is(err, ErrClosed):
		// Another may have written between the loss and the read hold.
		return nil, joinOnce(err, read.Unlock())
	case err != nil:
		c.failed(&m.handle.Lock, owner, err)
	}
	return read, nil
}

// notDowngraded is the error for a write hold that stands, since the read hold beside it could not be had. It
// matches neither ErrLost nor the cause of outer's end: see Downgrade.
func (m *RWMutex) notDowngraded(outer context.Context, err error) error {
	switch {
	case outer.Err() != nil:
		return lockerr.Problem(m.handle.Name, "the context that it was locked under has ended", outer.Err())
	case errors.Is(err, ErrLost): // as soon as it was granted, or it was to be nested in a read hold that is lost
		return &BackendError{Op: "downgrade", Name: m.handle.Name, MayHaveRun: true, Err: fmt.Errorf("no read hold: %v", err)} //nolint:errorlint // see above
	}
	return err
}

// Lock acquires the lock for reading, as [Mutex.Lock] does: it waits for the writer to leave and, if one waits with
// [WritersFirst], for that one to come and go. Redisson: readLock().lock.
func (l *RLocker) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return l.acquire(ctx, options)
}

// TryLock is Lock without waiting, as [Mutex.TryLock] is. Redisson: readLock().tryLock.
func (l *RLocker) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return l.try(ctx, options)
}

// Adopt takes over a read hold, as [Mutex.Adopt] does; there are no tokens. [ErrReentrant] says besides that the owner
// writes as well.
func (l *RLocker) Adopt(ctx context.Context, owner Owner, options ...TryOption) (*Hold, error) {
	return l.adopt(ctx, owner, options)
}

// Inspect returns how the lock stands in Redis, with the readers as its holders. It asks as [Mutex.Inspect] does, and
// its errors are the same. Redisson has a call for each question.
func (l *RLocker) Inspect(ctx context.Context) (State, error) {
	found, err := l.inspect(ctx)
	found.Holders = slices.DeleteFunc(found.Holders, func(h Holder) bool { return h.Mode != ModeRead })
	if len(found.Holders) == 0 {
		found.TTL = 0
	}
	return found, err
}

// ForceUnlock takes the lock from all readers, or from those that are named, as [Mutex.ForceUnlock] does. One who also
// writes goes on writing; Redisson's readLock().forceUnlock does nothing then.
func (l *RLocker) ForceUnlock(ctx context.Context, from ...Owner) (bool, error) {
	return force(ctx, l.side(), from)
}

var (
	_ Locker = (*RWMutex)(nil)
	_ Locker = (*RLocker)(nil)
)
