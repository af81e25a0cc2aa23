package program

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/robustness/history"
)

func refused(err error) bool { return errors.Is(err, holdfast.ErrLocked) }

// Hold is a hold, and what is recorded of it.
type Hold struct {
	*holdfast.Hold

	c      Client
	op     *history.Op
	lock   string
	shared bool
}

// Client is that of the hold.
func (h *Hold) Client() Client { return h.c }

// Lock is the name of the lock that is held.
func (h *Hold) Lock() string { return h.lock }

// ID is the hold's number in the history.
func (h *Hold) ID() int64 { return h.op.ID }

// Act is what an actor does until Stop.
func (r *Run) Act(i int) {
	rng := drawing(r.Seed, uint64(100+i))
	for !r.stopping.Load() {
		c := r.World.Client(i)
		name := r.Locks[rng.IntN(len(r.Locks))]
		switch {
		case r.Kind.Open == nil:
			r.nap(rng, 300*time.Millisecond)
			if r.Kind.Model.Latch {
				r.latch(c, name, rng)
			} else {
				r.unleased(c, name, rng)
			}
		case rng.IntN(8) == 0:
			r.burst(c, name, rng)
		default:
			r.nap(rng, []time.Duration{10 * time.Millisecond, time.Second}[rng.IntN(2)])
			if r.Force && rng.IntN(12) == 0 {
				r.force(c, name)
			} else {
				r.session(c, name, rng)
			}
		}
	}
}

func drawing(seed, which uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, which)) //nolint:gosec // it has to be repeated
}

// nap pauses for a while.
func (r *Run) nap(rng *rand.Rand, most time.Duration) {
	timer := time.NewTimer(time.Duration(1 + rng.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Hurry:
	}
}

// session is one hold with what is nested in it.
func (r *Run) session(c Client, name string, rng *rand.Rand) {
	h := r.takeOne(c, name, rng)
	if h == nil {
		return
	}
	name = h.lock // what it has adopted may be another one
	holds := r.use(c, []*Hold{h}, rng)
	if rng.IntN(4) == 0 {
		r.nap(rng, min(3*r.Lease, 10*time.Second)) // it is renewed
	}
	if !c.Usable() && r.orphaned(c, name, holds, rng) {
		return
	}
	if len(holds) == 1 && rng.IntN(5) == 0 && r.detach(holds[0], rng) {
		return
	}
	r.giveBack(holds, rng)
}

// use does something with a hold, and returns it with what is nested in it by then.
func (r *Run) use(c Client, holds []*Hold, rng *rand.Rand) []*Hold {
	for range rng.IntN(4) {
		r.nap(rng, min(2*r.Lease, time.Second))
		if !c.Usable() {
			break
		}
		r.World.NoteTrusted(holds[0])
		switch which := rng.IntN(4); {
		case which == 0 && r.Kind.nests():
			holds = r.nest(c, holds, rng)
		case which == 1 && len(holds) > 1:
			i := rng.IntN(len(holds))
			leaving := holds[i]
			holds = append(holds[:i], holds[i+1:]...)
			if rng.IntN(2) == 0 {
				r.release(leaving)
				break
			}
			var released sync.WaitGroup // beside another call of the same owner
			released.Go(func() { r.release(leaving) })
			holds = r.nest(c, holds, rng)
			released.Wait()
		case which == 2:
			r.extend(holds[0], rng)
		default:
			r.write(holds[0])
		}
	}
	return holds
}

// nest takes the lock once more, nested in one of the holds, and returns all. Who writes may read, too.
func (r *Run) nest(c Client, holds []*Hold, rng *rand.Rand) []*Hold {
	parent := holds[rng.IntN(len(holds))]
	shared := parent.shared || r.Kind.Model.Shared && rng.IntN(2) == 0
	if nested := r.take(c, parent.lock, parent, shared, rng); nested != nil {
		return append(holds, nested)
	}
	return holds
}

// orphaned is what happens to the holds of a client that is not usable any more. It reports whether that is all.
func (r *Run) orphaned(c Client, name string, holds []*Hold, rng *rand.Rand) bool {
	if rng.IntN(2) == 0 {
		r.write(holds[0]) // its process does not know yet that it is dead to others
	}
	if !c.Dead() {
		return false
	}
	for _, h := range holds {
		r.Log.Mark(history.Op{Kind: history.Ended, Lock: name, Client: c.Number(), Hold: h.op.ID, Until: r.lostBy(h)}, history.Lost)
	}
	return true
}

// giveBack releases holds, one after the other or all at once.
func (r *Run) giveBack(holds []*Hold, rng *rand.Rand) {
	late := rng.IntN(6) == 0
	token := holds[0]
	if rng.IntN(3) == 0 {
		var all sync.WaitGroup
		for _, h := range holds {
			all.Go(func() { r.release(h) })
		}
		all.Wait()
	} else {
		for _, i := range rng.Perm(len(holds)) {
			r.release(holds[i])
		}
	}
	if late { // as a process that has stood still
		r.nap(rng, 2*time.Second)
		r.write(token)
	}
}

// takeOne acquires the lock, or adopts what somebody has detached.
func (r *Run) takeOne(c Client, name string, rng *rand.Rand) *Hold {
	if from, ok := r.World.Take(r); ok {
		return r.adopt(c, from)
	}
	return r.take(c, name, nil, r.Kind.Model.Shared && rng.IntN(2) == 0, rng)
}

// take acquires the lock, nested in a hold or not.
func (r *Run) take(c Client, name string, in *Hold, shared bool, rng *rand.Rand) *Hold {
	op := history.Op{Kind: history.Acquire, Lock: name, Client: c.Number(), Shared: shared, Try: rng.IntN(3) == 0}
	ctx := context.Background()
	if in != nil {
		ctx, op.Hold = in.Context(), in.op.ID
	}
	var tryOptions []holdfast.TryOption
	var options []holdfast.LockOption
	if rng.IntN(4) == 0 {
		shortest := cmp.Or(r.Fixed, 50*time.Millisecond)
		fixed := holdfast.FixedLease(shortest + time.Duration(rng.Int64N(int64(r.Lease-shortest))))
		tryOptions, options = append(tryOptions, fixed), append(options, fixed)
	}
	switch rng.IntN(4) {
	case 0:
		options = append(options, holdfast.Wait(time.Duration(1+rng.Int64N(int64(2*time.Second)))))
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		after := time.Duration(rng.Int64N(int64([]time.Duration{5 * time.Millisecond, r.Timeout, 3 * time.Second}[rng.IntN(3)])))
		time.AfterFunc(after, cancel) // it may end the hold's context, too
	}
	lock := r.Kind.Open(c.Locks(), name, shared)
	c.AddHolds(1)
	if sem, ok := lock.(*holdfast.PermitSemaphore); ok {
		op.N = 1 + rng.IntN(Permits)
		return r.taken(c, op, in, func() (*holdfast.Hold, error) {
			if op.Try {
				return sem.TryAcquire(ctx, op.N, tryOptions...)
			}
			return sem.Acquire(ctx, op.N, options...)
		})
	}
	return r.taken(c, op, in, func() (*holdfast.Hold, error) {
		if op.Try {
			return lock.TryLock(ctx, tryOptions...)
		}
		return lock.Lock(ctx, options...)
	})
}

// taken records an acquire or adopt, and what comes of it. c.AddHolds(1) was called before.
func (r *Run) taken(c Client, op history.Op, in *Hold, acquire func() (*holdfast.Hold, error)) *Hold {
	noted := r.Log.Begin(op)
	h, err := acquire()
	if (h == nil) == (err == nil) {
		r.World.Failf("%v returned %v, %v", noted, h, err)
	}
	outcome := OutcomeOf(err, op.Try && !r.Kind.Split)
	r.Log.End(noted, outcome, func(op *history.Op) {
		if h != nil {
			op.Token = h.Token()
		} else {
			op.Until = op.Return + history.Moment(r.standsOn())
		}
	})
	r.World.Tracef("%v: %v", noted, err)
	if h == nil {
		c.AddHolds(-1)
		return nil
	}
	taken := &Hold{Hold: h, c: c, op: noted, lock: op.Lock, shared: op.Shared}
	r.World.NoteHandedOut(c, op.Lock, max(1, op.N))
	context.AfterFunc(h.Context(), func() {
		outcome := history.OK
		if cause := context.Cause(h.Context()); errors.Is(cause, holdfast.ErrLost) || errors.Is(cause, holdfast.ErrClosed) {
			outcome = history.Lost
		}
		until := r.World.Moment(h.Deadline())
		r.Log.Mark(history.Op{Kind: history.Ended, Lock: op.Lock, Client: c.Number(), Hold: noted.ID, Until: until}, outcome)
		r.World.Tracef("hold %d ended: %v", noted.ID, context.Cause(h.Context()))
		r.World.NoteLost(noted.ID, context.Cause(h.Context()))
	})
	if in == nil {
		r.World.NoteTrusted(taken)
	}
	return taken
}

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

// force takes the lock from whoever holds it.
func (r *Run) force(c Client, name string) {
	lock, ok := r.Kind.Open(c.Locks(), name, false).(Forcer)
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
			n, err := l.Count(ctx)
			return OutcomeOf(err, false), n
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
