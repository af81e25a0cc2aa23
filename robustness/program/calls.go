package program

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/robustness/history"
)

// This file has the single calls that an actor makes.

// lostBy is from which moment on a hold may be gone, if it is lost. Of one whose client is closed nobody can ask
// that any more; unless its context has told, it may have been lost at any time.
func (r *Run) lostBy(h *Hold) history.Moment {
	cause := context.Cause(h.Context())
	if h.Deadline().IsZero() && cause != nil && !errors.Is(cause, holdfast.ErrLost) && !errors.Is(cause, holdfast.ErrClosed) {
		return h.op.Return
	}
	return r.World.Moment(h.Deadline())
}

// release gives a hold back.
func (r *Run) release(h *Hold) {
	op := r.Log.Begin(history.Op{Kind: history.Release, Lock: h.lock, Client: h.c.Number(), Hold: h.op.ID, Until: r.lostBy(h)})
	start := time.Now()
	err := h.Unlock()
	took := time.Since(start)
	outcome := history.Unknown
	switch {
	case err == nil:
		outcome = history.OK
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrClosed):
		outcome = history.Lost
	case errors.Is(err, holdfast.ErrNotHeld):
		r.World.Failf("Unlock of hold %d, which was never unlocked: %v", h.op.ID, err)
	}
	r.World.NoteLost(h.op.ID, err)
	r.Log.End(op, outcome, nil)
	r.World.Tracef("%v: %v", op, err)
	h.c.AddHolds(-1)
	r.World.NoteHandedOut(h.c, h.lock, -max(1, h.op.N))
	if r.Prompt && took > r.Timeout {
		r.World.Failf("Unlock took %v", took)
	}
}

func (r *Run) extend(h *Hold, rng *rand.Rand) {
	d := time.Millisecond + time.Duration(rng.Int64N(int64(r.Lease)))
	op := r.Log.Begin(history.Op{Kind: history.Extend, Lock: h.lock, Client: h.c.Number(), Hold: h.op.ID})
	err := h.Extend(context.Background(), d)
	r.Log.End(op, OutcomeOf(err, false), nil)
	r.World.Tracef("%v by %v: %v", op, d, err)
	if err == nil {
		r.World.NoteTrusted(h)
	}
}

// detach ends a hold for another client to adopt, and reports whether it is over.
func (r *Run) detach(h *Hold, rng *rand.Rand) bool {
	if _, ok := r.Kind.Open(h.c.Locks(), h.lock, h.shared).(Adopter); !ok {
		return false
	}
	deadline := r.World.Moment(h.Deadline())
	op := r.Log.Begin(history.Op{Kind: history.Detach, Lock: h.lock, Client: h.c.Number(), Hold: h.op.ID, Until: deadline})
	owner, err := h.Detach()
	outcome := history.OK
	switch {
	case err == nil:
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrClosed), errors.Is(err, holdfast.ErrNotHeld):
		outcome = history.Lost
	default:
		outcome = history.Refused
	}
	r.Log.End(op, outcome, nil)
	r.World.Tracef("%v: %v", op, err)
	if err != nil {
		return false // it is to be unlocked
	}
	h.c.AddHolds(-1)
	r.World.Leave(h.c, Detached{Lock: h.lock, Shared: h.shared, Owner: owner, Process: op.Process, Hold: h.op.ID}, rng.IntN(5) > 0)
	return true
}

// adopt takes over what was detached.
func (r *Run) adopt(c Client, from Detached) *Hold {
	lock := r.Kind.Open(c.Locks(), from.Lock, from.Shared).(Adopter) //nolint:forcetypeassert // it was detached
	c.AddHolds(1)
	return r.taken(c, history.Op{Kind: history.Adopt, Lock: from.Lock, Client: c.Number(), Shared: from.Shared, From: from.Hold, FromIn: from.Process}, nil,
		func() (*holdfast.Hold, error) { return lock.Adopt(context.Background(), from.Owner) })
}

// force takes the lock from whoever holds it, or one side of it from whoever holds that.
func (r *Run) force(c Client, name string, shared bool) {
	lock, ok := r.Kind.Open(c.Locks(), name, shared).(Forcer)
	if !ok {
		return
	}
	op := r.Log.Begin(history.Op{Kind: history.Force, Lock: name, Client: c.Number(), Until: history.Never})
	_, err := lock.ForceUnlock(context.Background())
	r.Log.End(op, OutcomeOf(err, false), func(op *history.Op) {
		op.Until = op.Return
		if err != nil { // else nothing of it arrives any more
			op.Until += history.Moment(r.Timeout)
		}
	})
	r.World.Tracef("%v: %v", op, err)
}

// write sends the hold's token to a store which compares tokens, whether or not the hold is trusted.
func (r *Run) write(h *Hold) {
	if h.Token() == 0 {
		return
	}
	op := r.Log.Begin(history.Op{Kind: history.Write, Lock: h.lock, Client: h.c.Number(), Hold: h.op.ID, Token: h.Token()})
	outcome := r.World.Write(h.lock, h.Token())
	r.Log.End(op, outcome, nil)
}

// burst is many goroutines of one client that want a lock at once, for a moment each; some give up.
func (r *Run) burst(c Client, name string, rng *rand.Rand) {
	var all sync.WaitGroup
	for range 3 + rng.IntN(5) {
		own := drawing(rng.Uint64(), 0)
		all.Go(func() {
			for range 1 + own.IntN(3) {
				op := history.Op{Kind: history.Acquire, Lock: name, Client: c.Number(), Shared: r.Kind.Model.Shared && own.IntN(2) == 0, N: 0}
				lock := r.Kind.Open(c.Locks(), name, op.Shared)
				if r.Kind.Model.Permits > 0 {
					op.N = 1
				}
				ctx, cancel := context.Background(), func() {}
				if own.IntN(3) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(1+own.Int64N(int64(20*time.Millisecond))))
				}
				c.AddHolds(1)
				h := r.taken(c, op, nil, func() (*holdfast.Hold, error) { return lock.Lock(ctx, holdfast.Wait(2*time.Second)) })
				if h != nil {
					if own.IntN(2) == 0 {
						r.nap(own, 300*time.Microsecond)
					}
					if own.IntN(6) == 0 && r.Kind.nests() { // its context may belong to a hold that has passed on
						defer r.stale(h, own)
					}
					r.release(h)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// stale tries to re-enter the lock by the context of a hold that has ended.
func (r *Run) stale(h *Hold, rng *rand.Rand) {
	r.nap(rng, time.Millisecond)
	if !h.c.Usable() {
		return
	}
	op := history.Op{Kind: history.Acquire, Lock: h.lock, Client: h.c.Number(), Try: true}
	h.c.AddHolds(1)
	again := r.taken(h.c, op, nil, func() (*holdfast.Hold, error) {
		return r.Kind.Open(h.c.Locks(), h.lock, false).TryLock(context.WithoutCancel(h.Context()))
	})
	if again != nil {
		r.release(again)
	}
}

// latch is one call of a latch.
func (r *Run) latch(c Client, name string, rng *rand.Rand) {
	l, ctx := c.Locks().NewLatch(name), context.Background()
	op := history.Op{Lock: name, Client: c.Number()}
	note := func(kind history.Kind, call func() (history.Outcome, int)) {
		op.Kind = kind
		noted := r.Log.Begin(op)
		outcome, n := call()
		r.Log.End(noted, outcome, func(op *history.Op) { op.N = n })
		r.World.Tracef("%v", noted)
	}
	switch rng.IntN(5) {
	case 0:
		n := 1 + rng.IntN(4)
		op.N = n
		note(history.SetCount, func() (history.Outcome, int) {
			set, err := l.TrySetCount(ctx, n)
			switch {
			case err != nil:
				return history.Unknown, n
			case !set:
				return history.Refused, n
			}
			return history.OK, n
		})
	case 1:
		note(history.Count, func() (history.Outcome, int) {
			found, err := l.Inspect(ctx)
			return OutcomeOf(err, false), found.Remaining
		})
	case 2:
		note(history.Await, func() (history.Outcome, int) {
			return OutcomeOf(l.Await(ctx, holdfast.Wait(time.Duration(1+rng.Int64N(int64(time.Second))))), false), 0
		})
	default:
		note(history.CountDown, func() (history.Outcome, int) { return OutcomeOf(l.CountDown(), false), 0 })
	}
}

// unleased takes permits that nobody holds, and gives them back.
func (r *Run) unleased(c Client, name string, rng *rand.Rand) {
	sem := c.Locks().NewUnleasedSemaphore(name, holdfast.Permits(Permits))
	op := history.Op{Kind: history.Acquire, Lock: name, Client: c.Number(), Try: rng.IntN(3) == 0, N: 1 + rng.IntN(Permits)}
	taken := r.Log.Begin(op)
	var err error
	if op.Try {
		err = sem.TryAcquire(context.Background(), op.N)
	} else {
		err = sem.Acquire(context.Background(), op.N, holdfast.Wait(time.Duration(1+rng.Int64N(int64(time.Second)))))
	}
	r.Log.End(taken, OutcomeOf(err, op.Try), nil)
	r.World.Tracef("%v: %v", taken, err)
	if err != nil {
		return
	}
	r.nap(rng, 200*time.Millisecond)
	op = history.Op{Kind: history.Release, Lock: name, Client: c.Number(), Hold: taken.ID}
	given := r.Log.Begin(op)
	err = sem.Release(taken.N)
	r.Log.End(given, OutcomeOf(err, false), nil)
	r.World.Tracef("%v: %v", given, err)
}
