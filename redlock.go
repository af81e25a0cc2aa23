package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RedLock is one lock on several servers that know nothing of each other: it is
// held while a quorum of them, more than half, hold it. Get one from
// [NewRedLock]. All methods are safe for concurrent use.
//
// It promises that two holds do not overlap and that the lock can be acquired while
// fewer than half of the servers are away, if processes, networks and clocks are
// late or wrong by less than the leases allow for, and if a server that restarts
// either remembers what it held or stays away for as long as the longest lease.
// It does not promise that after a clock has jumped or a server has forgotten,
// and it gives no fencing token. A resource that must not be written to by two
// needs a [Fenced] lock whose tokens it checks, with or without a RedLock around.
//
// In Redis it is an ordinary lock on each server. Redisson:
// RedissonRedLock.
type RedLock struct {
	name    string
	lockers []Locker
	kinds   []*kind
	invalid error // why it cannot be used, or nil
}

var _ Locker = (*RedLock)(nil)

// NewRedLock returns one lock on several servers, from one lock of each: of any
// kind but a [PermitSemaphore], usually of the same name. Each has to be of a client of its own, and the
// clients have to reach independent servers, which nobody checks. Take five, or
// another odd number; and give the clients a short [WithTimeout], because that
// is how long a server is waited for when the others do not decide. It does no
// I/O.
//
// Without a lock, or with one that is nil, not of a single client, or of the same
// client as another, every call returns [ErrInvalid]. Redisson:
// RedissonRedLock's constructor.
func NewRedLock(lockers ...Locker) *RedLock {
	r := &RedLock{lockers: lockers}
	var names []string
	for _, l := range lockers {
		switch k := (*kind)(nil); {
		case isNil(l):
			r.refuse("a RedLock of a lock that is nil")
		case singleKind(l) == nil:
			r.refuse("a RedLock of a lock that is not one lock of one client: " + l.Name())
		default:
			k = singleKind(l)
			if slices.ContainsFunc(r.kinds, func(other *kind) bool { return other.client == k.client }) {
				r.refuse("a RedLock of two locks of one client: " + k.name)
			}
			r.kinds = append(r.kinds, k)
			if !slices.Contains(names, k.name) {
				names = append(names, k.name)
			}
		}
	}
	if len(lockers) == 0 {
		r.refuse("a RedLock of no locks")
	}
	r.name = strings.Join(names, "+")
	return r
}

func (r *RedLock) refuse(reason string) {
	if r.invalid == nil {
		r.invalid = fmt.Errorf("holdfast: %w argument: %s", ErrInvalid, reason)
	}
}

// Name returns the name of its locks; if they have several, all of them with a +
// between.
func (r *RedLock) Name() string { return r.name }

// Lock asks all servers side by side, and returns as soon as a quorum has granted
// the lock; servers that answer later join the hold. If no quorum is reached,
// it gives back what it has got and tries again after a random pause, until ctx
// ends or [Wait] runs out. Waiters are not told of releases. Each lock has an owner
// of its client's.
//
// The hold lasts while a quorum lives: its deadline is the latest until which
// that is certain, and its context ends with a [*LostError] when fewer live. A
// lock that is lost on one of the other servers is not taken again. Extend has to
// succeed on a quorum, and so has Unlock, which asks every server. Its token is 0.
// The clients' hooks are told of each server's lock, those of [WithHooks] among
// the options of the whole.
//
// If Lock returns an error, the caller holds nothing more than before; what was
// had is given back, if need be in the background. The errors are those of a
// [Mutex]: a [*LockedError] if others hold the lock on too many servers; a
// [*BackendError] that says how many servers failed, and how, if too few work.
//
// Redisson: RedissonRedLock.lock, lockInterruptibly, and tryLock with a wait time,
// which do not check that the quorum's leases still run.
func (r *RedLock) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return r.acquire(ctx, toWait(options))
}

// TryLock is one try: it returns within the longest [WithTimeout] of the clients.
// Redisson: RedissonRedLock.tryLock without a wait time.
func (r *RedLock) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return r.acquire(ctx, toTry(options))
}

// Inspect returns how its lock stands on each server, asking all side by side. It needs
// all to answer. The errors are those of [Mutex.Inspect]. Redisson has no counterpart.
func (r *RedLock) Inspect(ctx context.Context) (State, error) {
	if r.invalid != nil {
		return State{}, r.invalid
	}
	return inspectAll(ctx, r.name, r.lockers, r.quorum())
}

// quorum is how many locks have to live.
func (r *RedLock) quorum() int { return len(r.kinds)/2 + 1 }

// timeout is the longest of the clients'.
func (r *RedLock) timeout() (longest time.Duration) {
	for _, k := range r.kinds {
		longest = max(longest, k.client.config.timeout)
	}
	return longest
}

// acquire is Lock and TryLock.
func (r *RedLock) acquire(ctx context.Context, config lockConfig) (*Hold, error) {
	if r.invalid != nil {
		return nil, r.invalid
	}
	a, err := newCompositeAcquire(ctx, r.name, "redlock", r.kinds, config)
	if err != nil {
		return nil, err
	}
	bound, stop := a.bound()
	defer stop()
	if a.config.oneTry {
		bound, stop = context.WithTimeoutCause(ctx, r.timeout(), errWaitOver)
		defer stop()
	}
	var refusal error      // the last one
	var answered time.Time // when it came
	return a.acquire(bound, func(ctx context.Context) (*Hold, bool, error) {
		h, err := r.attempt(ctx, a)
		if errors.Is(err, ErrLocked) {
			refusal, answered = err, time.Now()
		}
		again := !a.config.oneTry && refusal != nil && r.bears(err, answered)
		if err != nil && refusal != nil && (again || ctx.Err() != nil) {
			err = refusal // what to say when the wait is over
		}
		return h, again, err
	})
}

// bears reports whether to try again after an error, when others were found to
// hold the lock before: at least, so many servers did work.
func (r *RedLock) bears(err error, answered time.Time) bool {
	for _, final := range []error{ErrClosed, ErrLost, ErrReentrant, ErrInvalid} {
		if errors.Is(err, final) {
			return false
		}
	}
	return time.Since(answered) < outageTimeouts*r.timeout()
}

// attempt asks every server once.
func (r *RedLock) attempt(bound context.Context, a *compositeAcquire) (*Hold, error) {
	c := newComposite(a.caller, r.name, a.kind, r.kinds[0].client, a.owners, len(r.kinds), r.quorum(), a.config)
	options := a.tryPart()
	for i, k := range r.kinds {
		if !k.client.tasks.Go(func() {
			var part *Hold
			var err error
			// It counts by itself, but for its hooks.
			k.client.tasks.Uncounted(func() { part, err = r.lockers[i].TryLock(c.ctx, options...) })
			if err != nil {
				c.partFailed(err)
				return
			}
			c.join(part)
		}) {
			c.partFailed(problem(k.name, "", ErrClosed))
		}
	}
	for !c.handOut(a.started) {
		select {
		case <-c.changed:
			if c.alive() == nil {
				continue
			}
		case <-bound.Done():
		}
		err := c.failure()
		c.rollback(bound)
		return nil, err
	}
	return c.Hold, nil
}
