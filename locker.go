package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Locker is what every kind of lock can do.
type Locker interface {
	// Name returns the lock's name.
	Name() string
	// Lock acquires the lock and waits for it if it must. It returns a hold or
	// an error, never neither.
	Lock(ctx context.Context, options ...LockOption) (*Hold, error)
	// TryLock acquires the lock if it is free now.
	TryLock(ctx context.Context, options ...LockOption) (*Hold, error)
}

var _ Locker = (*Mutex)(nil)

// Do acquires the lock, calls f with the hold's context, and gives the lock
// back, also if f panics. If the acquire fails, f is not called and the error is
// Lock's. Otherwise the error joins f's and Unlock's: it matches [ErrLost] if
// the lock was lost while f ran. Callbacks for the moments around f are hooks:
// [Observe] for one call, [WithHooks] for all.
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error, options ...LockOption) (err error) {
	hold, err := l.Lock(ctx, options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Unlock()) }()
	return f(hold.Context())
}

// SyncLocker returns a [sync.Locker] for code that wants one. Such code cannot
// be told of errors, so Lock panics if the lock is not acquired, because ctx
// ended or Redis failed, and Unlock panics if it was not held any more: going on
// in silence would be going on unprotected. An owner that ctx carries is not
// used, because a sync.Locker is not reentrant. Prefer [Do].
func SyncLocker(ctx context.Context, l Locker) sync.Locker {
	return &syncLocker{ctx: withoutOwner(ctx), locker: l}
}

type syncLocker struct {
	ctx    context.Context // sync.Locker's methods take none
	locker Locker

	mu   sync.Mutex
	hold *Hold // guarded by mu
}

// Lock acquires the lock, or panics.
func (s *syncLocker) Lock() {
	hold, err := s.locker.Lock(s.ctx)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = hold
}

// Unlock gives the lock back, or panics.
func (s *syncLocker) Unlock() {
	s.mu.Lock()
	hold := s.hold
	s.hold = nil
	s.mu.Unlock()
	if hold == nil {
		panic(fmt.Errorf("holdfast: lock %q: %w", s.locker.Name(), ErrNotHeld))
	}
	if err := hold.Unlock(); err != nil {
		panic(err)
	}
}
