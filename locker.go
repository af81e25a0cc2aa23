package holdfast

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// Locker is what every kind of lock can do.
type Locker interface {
	// Name returns the lock's name.
	Name() string
	// Lock acquires the lock and waits for it if it must. It returns a hold or an error, never neither.
	Lock(ctx context.Context, options ...LockOption) (*Hold, error)
	// TryLock acquires the lock if it is free now. If Redis does not answer, it returns within the client's timeout
	// ([WithTimeout], 6 s by default); of several locks as [MultiLock.TryLock] says.
	TryLock(ctx context.Context, options ...TryOption) (*Hold, error)
}

// Inspector is a [Locker] that is one lock, and not several: a tool looks at it, and takes it from whoever holds it.
// Each kind says what that means for it.
type Inspector interface {
	Locker
	// Inspect returns how the lock stands in Redis.
	Inspect(ctx context.Context) (State, error)
	// ForceUnlock takes the lock from these owners, or from whoever holds it if none are named, and reports whether any of them did.
	ForceUnlock(ctx context.Context, from ...Owner) (bool, error)
}

var (
	_ Locker = (*MultiLock)(nil)
	_        = []Inspector{(*Mutex)(nil), (*RWMutex)(nil), (*RLocker)(nil), (*PermitSemaphore)(nil)}
)

// Do acquires the lock, calls f with the hold and its context, and unlocks, even if f panics. If the acquire fails, f is not
// called and the error is Lock's. Otherwise the error joins f's and Unlock's: it matches [ErrLost] if the lock was lost while
// f ran.
//
// The errors of f pass through as they are. So if f, or a Do inside it, fails to acquire another lock, the error of the
// outer Do matches [ErrLocked], too, although f ran. The Name of the [*LockedError] tells which lock was refused: l.Name()
// only if f was not called (of a [MultiLock], it is the name of the part). The [*LostError] and the [*BackendError] have a
// Name as well.
func Do(ctx context.Context, l Locker, f func(ctx context.Context, hold *Hold) error, options ...LockOption) (err error) {
	hold, err := l.Lock(ctx, options...)
	if err != nil {
		return err
	}
	defer func() { err = joinOnce(err, hold.Unlock()) }()
	return f(hold.Context(), hold)
}

// SyncLocker returns a [sync.Locker] for code that wants one. It cannot return errors, so Lock panics if the lock is not
// acquired, because ctx ended or Redis failed, and Unlock panics if it was not held any more. [ErrUntold] is told to
// OnError. Its users exclude each other from Lock to Unlock even if the lock is lost in between. An owner that ctx carries
// is not used: a sync.Locker is not reentrant. Prefer [Do].
func SyncLocker(ctx context.Context, l Locker) sync.Locker {
	return &syncLocker{ctx: engine.WithoutOwner(ctx), locker: l, holds: make(chan *Hold, 1), gate: make(chan struct{}, 1)}
}

type syncLocker struct {
	ctx    context.Context
	locker Locker
	gate   chan struct{} // taken from Lock to Unlock
	holds  chan *Hold    // the one that is held, if any
}

// Lock acquires the lock, or panics.
func (s *syncLocker) Lock() {
	select {
	case s.gate <- struct{}{}:
	case <-s.ctx.Done():
		panic(engine.ContextError(s.ctx, s.locker.Name()))
	}
	locked := false
	defer func() {
		if !locked {
			<-s.gate
		}
	}()
	hold, err := s.locker.Lock(s.ctx)
	if err != nil {
		panic(err)
	}
	locked = true
	s.holds <- hold
}

// Unlock gives the lock back, or panics.
func (s *syncLocker) Unlock() {
	select {
	case hold := <-s.holds:
		defer func() { <-s.gate }()
		err := hold.Unlock()
		if errors.Is(err, ErrUntold) {
			e := hold.event()
			e.Err = err
			hold.hooks.tellFailure(hold.Context(), e)
		} else if err != nil {
			panic(err)
		}
	default:
		panic(lockerr.Problem(s.locker.Name(), "unlocked without having been locked", ErrNotHeld))
	}
}
