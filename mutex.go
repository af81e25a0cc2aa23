package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Mutex is a reentrant lock: one owner holds it, as often as it likes. Get one from [Client.NewMutex], or from
// [Client.NewFairMutex] if waiters of all processes come first, first served. Make as many of one name as you like, they
// are the same lock; but do not use both kinds under one name. Redisson: RLock, which is what its getLock and getFairLock
// return; with [Fenced] RFencedLock, with [Polling] the spin lock.
type Mutex struct {
	lock
}

// mutex is the protocol of a plain lock with these options.
func (c *kindConfig) mutex(name string) *protocol.Mutex {
	m := protocol.NewMutex(name)
	m.Polling, m.Fenced, m.TokenTTL = c.polling != nil, c.fenced, c.tokenTTL
	return m
}

// Lock acquires the lock, waiting until it is free, ctx ends, or [Wait] runs out. Waiters of one process come first, first
// served; between processes that is so with [Client.NewFairMutex], as a rule with [Client.NewMutex], not with [Polling].
//
// The hold gets an owner of its own, so goroutines that share the lock exclude each other. Under the context of a hold of
// the same lock it is nested in that hold: they have one owner, and Redis counts. [WithOwner] says by hand whose hold it
// is. One name through two clients in one call chain waits for itself. Without [FixedLease] the watchdog renews the hold.
//
// If Lock returns an error, the caller holds nothing more than before. What an attempt may have taken that ctx has cut off
// is given back in the background: in a millisecond or so, seldom a tenth of a second; if Redis does not answer, when the
// lease ends. The error matches
//   - ctx.Err() and the context's cause if ctx ended; if another held the lock then, [errors.As] finds a
//     [*LockedError] in it, and [errors.Is] no [ErrLocked];
//   - [ErrLocked], as a [*LockedError], if Wait ran out and another holds it;
//   - [*BackendError] if Redis did not answer, or refused; [ErrOtherKind] besides if the name is another kind of
//     object;
//   - [ErrLost] or [ErrNotHeld] if the hold that this one was to be nested in is gone, or was given back; ErrLost also
//     if the lock was lost, or taken by force, just when it was granted or handed over;
//   - [ErrReentrant] if the owner holds the lock and it is [NonReentrant];
//   - [ErrNotReplicated] if [WithReplicaAck] asks for more; it is given back;
//   - [ErrClosed] or [ErrInvalid].
//
// Redisson: RLock.lock, lockInterruptibly, and tryLock with a wait time.
func (m *Mutex) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return m.acquire(ctx, options)
}

// TryLock is Lock, but does not wait for another owner: if one holds the lock, it returns
// a [*LockedError] that says who. If Redis does not answer, it returns a [*BackendError] within the client's timeout
// ([WithTimeout], 6 s by default; that of [WithReplicaAck] is added).
//
// Within that time it waits for an earlier call of the same owner. So does Lock, within its
// [Wait]. If that earlier call does not finish, they return its refusal if it is waiting for
// the lock, otherwise a [*BackendError]. Redisson: RLock.tryLock without a wait time.
func (m *Mutex) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return m.try(ctx, options)
}

// Adopt takes over a hold that its holder has ended with [Hold.Detach], in this or another process. A new owner of this
// client replaces the given one, with count 1, Lock's lease, and a new token of a [Fenced] lock. Nobody else gets in
// between. A hold that was not detached is taken away as by ForceUnlock: until the holder is told, two believe that they
// hold the lock.
//
// It returns [ErrNotHeld] if owner does not hold the lock, and [ErrInvalid] if it is the zero Owner or a permit's;
// otherwise Lock's errors. After an error that Redis has not answered, what may have been taken over is released in the
// background. With Redisson, any client with the thread id may unlock.
func (m *Mutex) Adopt(ctx context.Context, owner Owner, options ...TryOption) (*Hold, error) {
	return m.adopt(ctx, owner, options)
}

// Inspect returns how the lock stands in Redis. It asks the primary, once, and once more for who the holders are. The
// error matches ctx.Err(), [*BackendError], [ErrOtherKind], [ErrInvalid] or [ErrClosed]. Redisson: isLocked,
// isHeldByThread, getHoldCount and remainTimeToLive are one call each.
func (m *Mutex) Inspect(ctx context.Context) (State, error) { return m.inspect(ctx) }

// ForceUnlock takes the lock from whoever holds it, announces the release, and reports whether anybody held it. If another
// one gets it just then, it is taken from that one. If owners are named, as [State] has them, it is taken from these only,
// and false says that none of them held it. It is for operators: until the holder's context ends, with [ErrLost], two may
// believe that they hold the lock. That takes one more round trip to Redis if the hold belongs to this client, 100 ms if
// it has lasted for a second and its client hears the announcement, and otherwise until its next renewal.
//
// The errors are those of Inspect; [ErrUntold] beside true, if those who wait were not told; and [ErrLocked] if it changes
// hands faster than it can be taken. Beside a [*BackendError] with MayHaveRun, false means that it is not known whether
// the lock was taken. Redisson: forceUnlock.
func (m *Mutex) ForceUnlock(ctx context.Context, from ...Owner) (bool, error) {
	return force(ctx, m.side(), from)
}
