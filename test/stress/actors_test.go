package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// hold is a hold that is handed out.
type hold struct {
	*holdfast.Hold
	from   time.Time
	client *client
	writes bool
	// run is the same for what an actor has nested, and for all that an owner has which was chosen by hand. Holds that pass from one actor to
	// the next have one owner, and runs of their own.
	run any
	// fresh says that its owner was made for it: readers who are and have one owner share a count.
	fresh   bool
	excused bool // force may have hit it
}

// live reports whether the hold may be trusted.
func (h *hold) live(now time.Time) bool {
	return !h.excused && h.Context().Err() == nil && h.Deadline().After(now)
}

// waiter is a call that waits.
type waiter struct {
	name   string
	writes bool
	// idle is since when it could have been let in, with nothing happening.
	idle    time.Time
	changes int
}

// beginLong starts actors whose holds last for long. Some are of one owner by hand, in two goroutines perhaps.
func (p *program) beginLong(actors *sync.WaitGroup, rng *rand.Rand) {
	p.clients = []*client{p.client(0), p.client(1), p.client(2)}
	for i := range 2 + rng.IntN(7) {
		c := p.clients[rng.IntN(len(p.clients))]
		owner := holdfast.Owner{}
		if rng.IntN(2) == 0 {
			owner = c.NewOwner()
		}
		n := 1
		if p.uses['o'] && owner != (holdfast.Owner{}) {
			n = 2
		}
		for j := range n {
			actors.Go(func() { p.actLong(c, p.drawing(uint64(100*i+j+10)), owner) })
		}
	}
	if p.uses['j'] {
		for i := range 1 + rng.Uint64N(3) {
			actors.Go(func() { p.actRedisson(5000 + i) })
		}
	}
}

// beginShort starts actors whose holds last for a moment: many of a few clients, or a few of many.
func (p *program) beginShort(actors *sync.WaitGroup, rng *rand.Rand) {
	clients, most := 1+rng.IntN(3), 12
	if rng.IntN(3) > 0 {
		clients, most = 2+rng.IntN(6), 2
	}
	for id := range clients {
		c := p.client(id)
		c.faulty = []float64{0, 0.05, 0.2}[rng.IntN(3)]
		p.clients = append(p.clients, c)
		for i := range 1 + rng.IntN(most) {
			actors.Go(func() { p.actShort(c, p.drawing(uint64(100*id+i+10))) })
		}
	}
}

// actLong reads, writes, nests, downgrades, tries to upgrade, extends, unlocks and gives up.
func (p *program) actLong(c *client, rng *rand.Rand, owner holdfast.Owner) {
	for !p.stopping.Load() && !c.closed.Load() {
		time.Sleep(upTo(rng, 2*time.Second))
		name := p.names[rng.IntN(len(p.names))]
		if p.uses['f'] && rng.IntN(10) == 0 {
			p.force(c, name, rng.IntN(2) == 0)
			continue
		}
		base := background
		if owner != (holdfast.Owner{}) {
			base = holdfast.WithOwner(base, owner)
		}
		holds := p.takeLong(c, name, base, rng, nil, nil)
		for range rng.IntN(5) {
			time.Sleep(upTo(rng, min(2*p.lease, 2*time.Second)))
			if len(holds) == 0 {
				break
			}
			i := rng.IntN(len(holds))
			parent := holds[i]
			switch {
			case p.uses['e'] && rng.IntN(3) == 0:
				_ = parent.Extend(background, time.Millisecond+upTo(rng, min(p.lease-time.Millisecond, 2*time.Second)))
			case rng.IntN(3) == 0:
				p.unlock(parent, rng)
				holds = slices.Delete(holds, i, i+1)
			default:
				ctx := parent.Context()
				if rng.IntN(2) == 0 {
					ctx = holdfast.WithOwner(background, parent.Owner())
				}
				holds = p.takeLong(c, name, ctx, rng, parent, holds)
			}
		}
		if len(holds) > 0 && rng.IntN(4) == 0 {
			time.Sleep(upTo(rng, min(3*p.lease, time.Minute))) // let the watchdog work
		}
		p.unlockAll(holds, rng)
	}
}

// takeLong waits for one side, with options of all kinds, and adds the hold to others. parent is whose hold it is nested in, if it is.
func (p *program) takeLong(c *client, name string, ctx context.Context, rng *rand.Rand, parent *hold, holds []*hold) []*hold {
	var kind []holdfast.RWOption
	if rng.IntN(2) == 0 {
		kind = append(kind, holdfast.WritersFirst())
	}
	if rng.IntN(2) == 0 {
		kind = append(kind, holdfast.Fenced())
	}
	var options []holdfast.LockOption
	if rng.IntN(3) == 0 {
		options = append(options, holdfast.FixedLease(50*time.Millisecond+upTo(rng, p.lease-time.Millisecond)))
	}
	switch rng.IntN(4) {
	case 0:
		options = append(options, holdfast.Wait(upTo(rng, 2*time.Second)))
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		after := upTo(rng, []time.Duration{10 * time.Millisecond, p.timeout, 5 * time.Second}[rng.IntN(3)])
		time.AfterFunc(after, cancel) // it may end the hold's context later, and that changes nothing
	}
	if p.uses['o'] {
		// While one goroutine waits in line to read, another one of its owner may
		// begin to write, and then wait for the first one, which waits for it.
		options = append(options, holdfast.Wait(upTo(rng, 10*time.Second)))
	}
	writes := rng.IntN(2) == 0
	l := p.lock(c, name, writes, kind...)
	if h := p.take(c, l, ctx, writes, parent, func() (*holdfast.Hold, error) { return l.Lock(ctx, options...) }); h != nil {
		return append(holds, h)
	}
	return holds
}

// actShort takes the lock again and again, mostly for a moment.
func (p *program) actShort(c *client, rng *rand.Rand) {
	for !p.stopping.Load() && !c.closed.Load() {
		ctx, cancel := background, context.CancelFunc(func() {})
		var options []holdfast.LockOption
		switch rng.IntN(16) {
		case 0:
			ctx, cancel = context.WithTimeout(background, upTo(rng, 2*time.Millisecond))
		case 1:
			options = append(options, holdfast.Wait(1+upTo(rng, 2*time.Millisecond)))
		case 2:
			options = append(options, holdfast.FixedLease(50*time.Millisecond+upTo(rng, p.lease)))
		case 3:
			time.Sleep(upTo(rng, 3*time.Second))
		default:
			time.Sleep(upTo(rng, 200*time.Microsecond))
		}
		name, writes := p.names[rng.IntN(len(p.names))], p.kind == "mutex" || rng.IntN(5) == 0
		l := p.lock(c, name, writes)
		if h := p.take(c, l, ctx, writes, nil, func() (*holdfast.Hold, error) { return l.Lock(ctx, options...) }); h != nil {
			p.useShort(h, rng)
		}
		cancel()
	}
}

// useShort does what a program does inside, and unlocks.
func (p *program) useShort(h *hold, rng *rand.Rand) {
	try := func(ctx context.Context, parent *hold) *hold {
		l := p.lock(h.client, h.Name(), h.writes)
		return p.take(h.client, l, ctx, h.writes, parent, func() (*holdfast.Hold, error) { return l.TryLock(ctx) })
	}
	if rng.IntN(4) > 0 {
		time.Sleep(upTo(rng, 300*time.Microsecond))
	}
	switch rng.IntN(30) {
	case 0: // nested, and given back before or after
		if inner := try(h.Context(), h); inner != nil {
			time.Sleep(upTo(rng, time.Millisecond))
			p.unlockAll([]*hold{h, inner}, rng)
			return
		}
	case 1:
		_ = h.Extend(background, 5*time.Millisecond+upTo(rng, p.lease))
	case 2:
		time.Sleep(upTo(rng, 2*p.lease)) // renewed, or lost
	}
	p.unlock(h, rng)
	if rng.IntN(10) == 0 { // what is over is nobody's: under its context others are not joined
		if h := try(context.WithoutCancel(h.Context()), nil); h != nil {
			time.Sleep(upTo(rng, 300*time.Microsecond))
			p.unlock(h, rng)
		}
	}
}

// lock is the lock, or one side of it.
func (p *program) lock(c *client, name string, writes bool, options ...holdfast.RWOption) interface {
	holdfast.Locker
	ForceUnlock(ctx context.Context, from ...holdfast.Owner) (bool, error)
} {
	switch m := c.NewRWMutex(name, options...); {
	case p.kind == "mutex":
		return c.NewMutex(name)
	case writes:
		return m
	default:
		return m.RLocker()
	}
}

// take acquires one side, and checks what comes of it.
func (p *program) take(
	c *client, l holdfast.Locker, ctx context.Context, writes bool, parent *hold, acquire func() (*holdfast.Hold, error),
) *hold {
	name := l.Name()
	waits := &waiter{name: name, writes: writes}
	p.mu.Lock()
	p.waiters[waits] = struct{}{}
	p.mu.Unlock()
	start := time.Now()
	got, err := acquire()
	p.mu.Lock()
	delete(p.waiters, waits)
	p.mu.Unlock()
	owner, _ := holdfast.OwnerFrom(ctx, l)
	if (got == nil) == (err == nil) {
		p.failf("Lock returned %v, %v", got, err)
	}
	p.logf("client %d: Lock(%s, %v, writes %v) after %v: %v", c.id, name, owner, writes, time.Since(start), err)
	if err != nil {
		upgrade := writes && (p.uses['o'] || p.reads(name, owner))
		if errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, holdfast.ErrReentrant) && !upgrade {
			p.failf("%v is refused for no reason: %v", owner, err)
		}
		return nil
	}
	h := &hold{Hold: got, from: time.Now(), client: c, writes: writes, fresh: owner == (holdfast.Owner{})}
	switch {
	case parent != nil:
		h.run = parent.run
		if got.Owner() != parent.Owner() {
			p.failf("nested in %v, and granted to %v", parent.Owner(), got.Owner())
		}
	case h.fresh:
		h.run = h
	default:
		h.run = owner
	}
	p.enter(h)
	return h
}

// unlockAll gives holds back, all at once or in any order.
func (p *program) unlockAll(holds []*hold, rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		var wg sync.WaitGroup
		for _, h := range holds {
			r := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() { p.unlock(h, r) })
		}
		wg.Wait()
		return
	}
	for _, i := range rng.Perm(len(holds)) {
		p.unlock(holds[i], rng)
	}
}

func (p *program) unlock(h *hold, rng *rand.Rand) {
	p.leave(h)
	alive, start := h.Context().Err() == nil, time.Now()
	err := h.Unlock()
	took := time.Since(start)
	p.logf("client %d: Unlock(%s, %v) after %v: %v", h.client.id, h.Name(), h.Owner(), took, err)
	if took > p.timeout {
		p.failf("Unlock took %v", took)
	}
	p.mu.Lock()
	_, forced := p.forced[h.Name()]
	p.changes[h.Name()]++
	p.mu.Unlock()
	var failed *holdfast.BackendError
	switch {
	case err == nil || errors.As(err, &failed):
	case errors.Is(err, holdfast.ErrClosed) && h.client.closed.Load():
	case errors.Is(err, holdfast.ErrLost) && (!alive || forced || errors.Is(context.Cause(h.Context()), holdfast.ErrLost)):
	default:
		p.failf("Unlock of %v, alive %v: %v", h.Owner(), alive, err)
	}
	if rng.IntN(10) == 0 {
		if err := h.Unlock(); err == nil || errors.As(err, &failed) {
			p.failf("the second Unlock: %v", err)
		}
	}
}

// force takes one side away.
func (p *program) force(c *client, name string, writes bool) {
	excuse := func(until time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forced[name] = until
		for h := range p.holds {
			h.excused = h.excused || h.Name() == name
		}
	}
	excuse(time.Now().Add(time.Hour))
	_, err := p.lock(c, name, writes).ForceUnlock(background)
	p.logf("client %d: ForceUnlock(%s, writes %v): %v", c.id, name, writes, err)
	excuse(time.Now().Add(p.timeout/3 + time.Second))
}

// theirs is a hold of Redisson's.
type theirs struct {
	kit.Redisson
	writes bool
	until  time.Time
}

// actRedisson is a thread of Redisson's in the random program. It does nothing
// that Redisson itself does wrong: no renewals (S8), no reads under a write that
// end one by one (S9), no reads of different leases (S10).
func (p *program) actRedisson(id uint64) {
	rng := p.drawing(id)
	for !p.stopping.Load() {
		time.Sleep(upTo(rng, 2*time.Second))
		j := kit.NewRedisson(p.w, p.names[rng.IntN(len(p.names))], fmt.Sprintf("c0ffee:%d", id))
		lease := 50*time.Millisecond + upTo(rng, p.lease).Truncate(time.Millisecond)
		first := p.theirTurn(j, lease, rng.IntN(2) == 0)
		if first == nil {
			continue
		}
		time.Sleep(upTo(rng, 2*lease))
		var read *theirs
		if first.writes && rng.IntN(2) == 0 && time.Now().Before(first.until) {
			read = p.theirTurn(j, lease, false)
		}
		p.theyLeave(first)
		if read != nil {
			time.Sleep(upTo(rng, 2*lease))
			p.theyLeave(read)
		}
	}
}

// theirTurn asks once for a thread of Redisson's.
func (p *program) theirTurn(j kit.Redisson, lease time.Duration, writes bool) *theirs {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	ask := j.Read
	if writes {
		ask = j.Write
	}
	got := ask(lease)
	p.logf("redisson %s: %s, writes %v: %v", j.Owner, j.Name, writes, got)
	if !got {
		return nil
	}
	h := &theirs{j, writes, now.Add(lease)}
	for other := range p.holds {
		p.beside(other, h, now)
	}
	p.changes[j.Name]++
	p.theirs[h] = struct{}{}
	return h
}

func (p *program) theyLeave(h *theirs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.theirs, h)
	p.changes[h.Name]++
	// The memory driver's server rounds what is left of a lease down to whole ms when
	// a script reads it and sets it anew. Redis counts in whole ms only, and loses
	// nothing.
	expired := !time.Now().Before(h.until.Add(-time.Millisecond))
	leave := h.ReadNoMore
	if h.writes {
		leave = h.WriteNoMore
	}
	got := leave()
	p.logf("redisson %s: leaves %s, writes %v: %v", h.Owner, h.Name, h.writes, got)
	if got == "<nil>" && !expired {
		p.failf("%s: the hold of Redisson's %s (writes %v) is gone, and nobody took it", h.Name, h.Owner, h.writes)
	}
}
