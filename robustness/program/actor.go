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
			force := 2 // neither
			if r.Force {
				force = rng.IntN(24)
			}
			if force < 2 {
				r.force(c, name, force == 1)
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
		if h == nil {
			op.Until = op.Return + history.Moment(r.standsOn())
			return
		}
		op.Token = h.Token()
		if !op.Try {
			op.Until = op.Return + history.Moment(r.leaves())
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
