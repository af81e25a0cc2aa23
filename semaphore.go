package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// UnleasedSemaphore is a number of permits, which anybody may take and anybody may give back: they have no owner and no
// lease. Those that a process had when it crashed are not given back; where that matters, use a [PermitSemaphore]. Get one
// from [Client.NewUnleasedSemaphore].
//
// Each call has its effect once, whatever happens to its messages. Large requests reserve permits as with a
// PermitSemaphore. A request for more than there will ever be costs the others half of their time until it gives up: bound
// such an Acquire by [Wait]. Redisson: RSemaphore.
type UnleasedSemaphore struct {
	object
}

// Acquire takes n permits, all or none, and waits until they are available, ctx ends, or [Wait] runs out. Of one process,
// those who wait for the same number come first, first served. If it returns an error, what an unanswered attempt may have
// taken is given back in the background. The error matches ctx.Err() and the context's cause; [ErrNoPermits] and
// [ErrLocked], as a [*PermitsError], if Wait ran out and too few permits were available; [*BackendError]; [ErrInvalid] if
// n is not between 1 and [MaxCount]; or [ErrClosed]. Redisson: acquire, and tryAcquire with a wait time; both take 0
// permits, too.
func (s *UnleasedSemaphore) Acquire(ctx context.Context, n int, options ...WaitOption) error {
	return s.acquire(ctx, n, configOf(options))
}

// TryAcquire is Acquire without waiting. If Redis does not answer, it returns as [Mutex.TryLock] does. Redisson: tryAcquire.
func (s *UnleasedSemaphore) TryAcquire(ctx context.Context, n int) error {
	return s.acquire(ctx, n, lockConfig{Args: engine.Args{OneTry: true}})
}

func (s *UnleasedSemaphore) acquire(ctx context.Context, n int, config lockConfig) error {
	one, err := s.wanting(ctx, n, MaxCount, &config)
	if err != nil {
		return err
	}
	one.Requests = protocol.Taking{Semaphore: s.protocol(), Once: one.once(), N: n, Undo: newID()}
	return one.pass(ctx, &config)
}

// Release gives n permits back, and announces it; a semaphore that does not exist is made by that. It takes no context,
// like [Hold.Unlock]. If Redis has not answered within the client's timeout it returns a [*BackendError], and the release
// is repeated in the background for ten more timeouts or so. The error matches [ErrInvalid] if n is not between 1 and
// [MaxCount], [ErrUntold], or [ErrClosed]. Redisson: release.
func (s *UnleasedSemaphore) Release(n int) error {
	_, err := s.release(n, false)
	return err
}

// ReleaseIfExists is Release if the semaphore exists, which it may not any more if
// it had a time to live. It reports whether it does. Redisson: releaseIfExists.
func (s *UnleasedSemaphore) ReleaseIfExists(n int) (bool, error) { return s.release(n, true) }

func (s *UnleasedSemaphore) release(n int, ifExists bool) (bool, error) {
	if err := checkCount(s.handle.Name, n, 1, MaxCount); err != nil {
		return false, err
	}
	res, err := s.detached("release", s.protocol().Add(s.handle.once(), n, ifExists))
	return res.Reply.Code == script.Done, err
}

// TrySetPermits makes n permits available if the semaphore does not exist, and
// reports whether it did not.
// The errors are those of [PermitSemaphore.TrySetPermits]. Redisson: trySetPermits.
func (s *UnleasedSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.counted(ctx, "set", n, 0, s.protocol().Set(s.handle.once(), n))
}

// AddPermits makes delta permits more available, or fewer if it is negative: the
// number may fall below 0. The errors are TrySetPermits's. Redisson: addPermits.
func (s *UnleasedSemaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.counted(ctx, "add", delta, -MaxCount, s.protocol().Add(s.handle.once(), delta, false))
	return err
}

// Drain takes all permits that are available, and returns how many; a number below 0 is set to 0, and returned. The errors
// are TrySetPermits's; where it may have been done, nobody knows how many permits were taken. Redisson: drainPermits.
func (s *UnleasedSemaphore) Drain(ctx context.Context) (int, error) {
	n, _, err := s.number(ctx, "drain", s.protocol().Drain(s.handle.once()))
	return int(n), err
}

// Inspect returns how many permits are available, and how long the semaphore lives; 0 if
// it does not exist. It asks the primary, once. The errors are TrySetPermits's.
// Redisson: availablePermits, remainTimeToLive.
func (s *UnleasedSemaphore) Inspect(ctx context.Context) (State, error) {
	found, available, err := inspectState(ctx, &s.handle, protocol.InspectNumber(s.handle.Name))
	found.Available = available
	return found, err
}

// Expire lets the semaphore be deleted d from now, however many permits are taken then. All else is
// [PermitSemaphore.Expire]'s. Redisson: expire, clearExpire.
func (s *UnleasedSemaphore) Expire(ctx context.Context, d time.Duration) (bool, error) {
	return s.expire(ctx, d)
}

// Delete deletes the semaphore, and reports whether it was there. Who waits goes on waiting, until there are permits
// again. The errors are those of [PermitSemaphore.Delete]. Redisson: delete.
func (s *UnleasedSemaphore) Delete(ctx context.Context) (bool, error) { return s.remove(ctx) }

func (s *UnleasedSemaphore) protocol() protocol.Semaphore {
	return protocol.Semaphore{Name: s.handle.Name}
}
