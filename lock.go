package holdfast

import "context"

// lock is what every kind of lock can do that is one lock in Redis.
type lock struct {
	handle handle
}

// Name returns the lock's name.
func (l *lock) Name() string { return l.handle.Name }

// Lock acquires the lock, waiting until it is free, ctx ends, or [Wait] runs
// out. Waiters of one process come first, first served. Between processes it is who came
// first with [Client.NewFairMutex], and as a rule with [Client.NewMutex]; else whoever asks first.
//
// The hold gets an owner of its own, so goroutines that share the lock exclude each
// other. Under the context of a hold of the same lock it is nested in that hold:
// they have one owner, and Redis counts. [WithOwner] says by hand whose hold it is.
// One name through two clients in one call chain waits for itself. Without [FixedLease] the
// watchdog renews the hold.
//
// If Lock returns an error, the caller holds nothing more than before; what an
// unanswered attempt may have taken is given back in the background. The error matches
//   - ctx.Err() and the context's cause if ctx ended; if another held the lock then, [errors.As] finds
//     a [*LockedError] in it, and [errors.Is] no [ErrLocked];
//   - [ErrLocked], as a [*LockedError], if Wait ran out and another holds it;
//   - [*BackendError] if Redis did not answer, or refused; [ErrOtherKind] besides
//     if the name is another kind of object;
//   - [ErrLost] if the hold that this one was to be nested in is gone, or the lock was lost, or
//     taken by force, in the moment in which it was granted or handed over;
//   - [ErrNotHeld] if the hold that this one was to be nested in was given back meanwhile;
//   - [ErrReentrant] if the owner holds the lock and it is [NonReentrant], or reads
//     and would write;
//   - [ErrNotReplicated] if [WithReplicaAck] asks for more; it is given back;
//   - [ErrClosed] or [ErrInvalid].
//
// Redisson: RLock.lock, lockInterruptibly, and tryLock with a wait time.
func (l *lock) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return l.handle.acquire(ctx, Owner{}, toWait(options))
}

// TryLock is Lock, but does not wait for another owner: if one holds the lock, it returns
// a [*LockedError] that says who. Redis being away, it returns a [*BackendError]
// within [WithTimeout].
//
// Within that time it waits for an earlier call of the same owner. So does Lock, within its
// [Wait]. If that earlier call does not finish, they return its refusal if it is waiting for
// the lock, otherwise a [*BackendError]. Redisson: RLock.tryLock without a wait time.
func (l *lock) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return l.handle.acquire(ctx, Owner{}, toTry(options))
}

// Adopt takes over a hold that its holder has ended with [Hold.Detach], in this or
// another process. A new owner of this client replaces the given one. The count is 1,
// and a [Fenced] lock gets a new token; the hold is then as one of Lock's, with its lease,
// whatever the other one's was. Nobody else
// gets in between.
//
// Adopting what its holder has not detached is taking it away, as with ForceUnlock:
// the holder is told as fast, and until then two believe that they hold the lock.
//
// It returns [ErrNotHeld] if owner does not hold the lock, [ErrInvalid] if it
// is the zero Owner, and [ErrReentrant] if it holds both sides of a read-write lock.
// Lock's other errors apply. After an error that Redis has not answered, what may
// have been taken over is released in the background. Redisson has no counterpart,
// but lets any client unlock with the right thread id.
func (l *lock) Adopt(ctx context.Context, owner Owner, options ...TryOption) (*Hold, error) {
	if owner.IsZero() {
		return nil, invalid("owner: there is nothing to adopt of the zero Owner")
	}
	if err := owner.checkNumbered(); err != nil {
		return nil, err
	}
	return l.handle.acquire(ctx, owner, toTry(options))
}

// Inspect returns how the lock stands in Redis. It asks the primary, once, and once more for who the holders are. The error
// matches ctx.Err(), [*BackendError], [ErrOtherKind], [ErrInvalid] or [ErrClosed]. Redisson: isLocked, isHeldByThread, getHoldCount and
// remainTimeToLive are one call each.
func (l *lock) Inspect(ctx context.Context) (State, error) {
	found, _, err := inspectState(ctx, &l.handle, l.handle.HoldRequests().Inspect())
	return found.only(l.handle.mode), err
}

// ForceUnlock takes the lock from whoever holds it, announces the release, and
// reports whether anybody held it. If the holder leaves just then and another one comes, it
// is taken from that one; to take it from one owner only, use Adopt, and unlock. The holder's context ends with [ErrLost]: at
// once if it belongs to this client, within 100 ms if it has held the lock for a
// second and hears the announcement, and at its next renewal otherwise. Until
// then two may believe that they hold the lock; this is a tool for operators. The errors
// are those of Inspect; [ErrUntold] beside true, if those who wait were not told; and
// [ErrLocked] if it changes hands faster than it can be taken. Beside a [*BackendError] with
// MayHaveRun, false means that it is not known whether the lock was taken.
// Redisson: forceUnlock.
func (l *lock) ForceUnlock(ctx context.Context) (bool, error) {
	return force(ctx, side{&l.handle, l.handle.HoldRequests()})
}

// oneHandle returns the lock's handle. Only locks of one client have this method: see handleOf.
func (l *lock) oneHandle() *handle { return &l.handle }

// handleOf returns the handle of a Locker that is one lock of one client, else nil.
func handleOf(l Locker) *handle {
	if one, ok := l.(interface{ oneHandle() *handle }); ok {
		return one.oneHandle()
	}
	return nil
}
