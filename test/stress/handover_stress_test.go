package stress

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

var (
	handOverSeeds = flag.Int("handover.seeds", 12, "how many random programs TestHandOverStress runs")
	handOverFirst = flag.Uint64("handover.first", 9, "its first seed; of those from this one on more hand over than of those before it")
	handOverKind  = flag.String("handover.kind", "", "run only programs of this kind: mutex, rw")
)

// TestHandOverStress runs random programs of short holds that pass from one to the next, inside
// a process and between processes, with every fault that a network has, under fake time. What
// a program calls a hold is known by a number of its own, since holds that pass on have one
// owner: no two of them are ever alive together. A failure prints its seed: -handover.first=SEED
// -handover.seeds=1.
func TestHandOverStress(t *testing.T) {
	holds, handed, between := 0, 0, 0
	for seed := *handOverFirst; seed < *handOverFirst+uint64(*handOverSeeds); seed++ {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			p := &passing{stress: newStress(t, w, seed)}
			p.run()
			holds, handed, between = holds+p.holds, handed+int(p.handed.Load()), between+p.between
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	// Of a few programs it may be fewer.
	if t.Logf("%d holds, %d of them handed over, %d after one of another process", holds, handed, between); *handOverSeeds > 10 && (handed < holds/8 || between < holds/4) {
		t.Errorf("%d of %d holds were handed over, and %d came after one of another process", handed, holds, between)
	}
}

// inside is a hold that is handed out.
type inside struct {
	*holdfast.Hold
	reads bool
}

// passed is a lock whose holds pass on, or are shared.
type passed interface {
	holdfast.Locker
	Inspect(ctx context.Context) (holdfast.State, error)
}

// passing is one random program.
type passing struct {
	*stress

	mu      sync.Mutex
	inside  map[string]map[int]inside // by lock and number
	last    map[string]int            // the client that held a lock last
	holds   int
	between int // holds after one of another client
}

func (p *passing) run() {
	s := p.stress
	if s.kind = *handOverKind; s.kind == "" {
		s.kind = []string{"mutex", "rw"}[s.seed%2]
	}
	p.inside, p.last = map[string]map[int]inside{"a": {}, "{b}:c": {}}, map[string]int{}
	rng := rand.New(rand.NewPCG(s.seed, 2))
	clients, most := 1+rng.IntN(3), 12 // callers of a client
	if rng.IntN(3) > 0 {
		clients, most = 2+rng.IntN(6), 2
	}
	for id := range clients {
		s.all = append(s.all, s.client(id))
	}
	var actors sync.WaitGroup
	for _, c := range s.all {
		c.faulty = []float64{0, 0.05, 0.2}[rng.IntN(3)]
		for i := range 1 + rng.IntN(most) {
			actors.Go(func() { p.actor(c, rand.New(rand.NewPCG(s.seed, uint64(100*c.id+i+10)))) })
		}
	}
	for end := time.Now().Add(time.Duration(1+rng.IntN(20)) * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
		if s.uses['m'] {
			s.all[rng.IntN(len(s.all))].d.LoseMessages(rng.IntN(2) == 0)
		}
		if c := s.all[rng.IntN(len(s.all))]; rng.IntN(4) == 0 {
			s.changeLuck(c, rng)
		}
		if s.uses['f'] && rng.IntN(3) == 0 {
			s.mu.Lock()
			s.forced["a"], s.forced["{b}:c"] = time.Time{}, time.Time{} // so that losses are expected
			s.mu.Unlock()
			_, _ = s.all[0].NewMutex(s.names[0]).ForceUnlock(background)
		}
	}
	if s.uses['k'] {
		s.close(s.all[rng.IntN(len(s.all))])
	}
	s.comeToRest(&actors)
	if s.uses['k'] {
		time.Sleep(s.lease) // what Close could not give back
	}
	for _, name := range s.names {
		if got := s.w.Do("HGETALL", name); got != "" && !s.onlyDeadReaders(name) {
			s.failf("left in Redis: %s (%v)", got, s.w.PTTL(name))
			s.w.Do("DEL", name)
		}
	}
	time.Sleep(25 * time.Hour) // places and reservations that nobody could give up any more
	s.closeAll()
}

// onlyDeadReaders reports whether what is left of the lock says that it is read, by readers none of whom has a key. They
// keep nobody out, and the hash is gone within the lease.
func (s *stress) onlyDeadReaders(name string) bool {
	return s.w.Do("HGET", name, "mode") == "read" && s.w.Do("KEYS", "{"+name+"}:*") == "" && s.w.PTTL(name) <= s.lease
}

// actor takes the lock again and again, mostly for a moment.
func (p *passing) actor(c *stressClient, rng *rand.Rand) {
	upTo := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most) + 1)) }
	for n := 0; !p.stopping.Load() && !c.closed.Load(); n++ {
		ctx, cancel := background, context.CancelFunc(func() {})
		var options []holdfast.LockOption
		switch rng.IntN(16) {
		case 0:
			ctx, cancel = context.WithTimeout(background, upTo(2*time.Millisecond))
		case 1:
			options = append(options, holdfast.Wait(1+upTo(2*time.Millisecond)))
		case 2:
			options = append(options, holdfast.FixedLease(50*time.Millisecond+upTo(p.lease)))
		case 3:
			time.Sleep(upTo(3 * time.Second))
		default:
			time.Sleep(upTo(200 * time.Microsecond))
		}
		name := p.names[rng.IntN(len(p.names))]
		var l passed = c.NewMutex(name)
		reads := false
		if p.kind == "rw" {
			rw := c.NewRWMutex(name)
			if l = rw; rng.IntN(5) > 0 {
				l, reads = rw.RLocker(), true
			}
		}
		h, err := l.Lock(ctx, options...)
		if err == nil {
			p.hold(c, l, h, reads, rng, upTo)
		} else if errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, holdfast.ErrReentrant) {
			p.failf("Lock: %v", err)
		}
		cancel()
	}
}

// hold does what a program does inside, and unlocks.
func (p *passing) hold(c *stressClient, l passed, h *holdfast.Hold, reads bool, rng *rand.Rand, upTo func(time.Duration) time.Duration) {
	number := p.enter(c, l.Name(), inside{h, reads})
	if rng.IntN(4) > 0 {
		time.Sleep(upTo(300 * time.Microsecond))
	}
	switch rng.IntN(40) {
	case 0: // nested, and given back before or after
		if inner, err := l.TryLock(h.Context()); err == nil {
			if rng.IntN(2) == 0 {
				time.Sleep(upTo(time.Millisecond))
			}
			defer func() { _ = inner.Unlock() }()
		}
	case 1:
		p.asked(l, h)
	case 2:
		_ = h.Extend(background, 5*time.Millisecond+upTo(p.lease))
	case 3:
		time.Sleep(upTo(2 * p.lease)) // renewed, or lost
	}
	p.leave(l.Name(), number)
	err := h.Unlock()
	if err != nil && !errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrClosed) && !isBackend(err) {
		p.failf("Unlock: %v", err)
	}
	if rng.IntN(10) > 0 {
		return
	}
	// What is over is nobody's: under its context others are not joined.
	if err := h.Unlock(); err == nil {
		p.failf("a second Unlock went through")
	}
	if other, err := l.TryLock(context.WithoutCancel(h.Context())); err == nil {
		number := p.enter(c, l.Name(), inside{other, reads})
		time.Sleep(upTo(300 * time.Microsecond))
		p.leave(l.Name(), number)
		_ = other.Unlock()
	}
}

// asked checks that Redis and the hold agree on whose it is.
func (p *passing) asked(l passed, h *holdfast.Hold) {
	owner := h.Owner()
	state, err := l.Inspect(background)
	if err == nil && h.Context().Err() == nil && !p.uses['f'] && !state.HeldBy(owner) {
		p.failf("%v holds it, and Redis says %+v", owner, state)
	}
}

// enter fails if another hold is alive.
func (p *passing) enter(c *stressClient, name string, h inside) (number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	if last, held := p.last[name]; held && last != c.id {
		p.between++
	}
	p.last[name] = c.id
	for number, other := range p.inside[name] {
		now := time.Now()
		if h.reads && other.reads {
			continue
		}
		if other.Context().Err() == nil && h.Context().Err() == nil && other.Deadline().After(now) && h.Deadline().After(now) && !p.uses['f'] {
			p.failf("%s: hold %d, until %v, and %d overlap", name, number, other.Deadline().Sub(p.start), p.holds)
		}
	}
	p.inside[name][p.holds] = h
	return p.holds
}

func (p *passing) leave(name string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inside[name], number)
}

func isBackend(err error) bool {
	var failed *holdfast.BackendError
	return errors.As(err, &failed)
}
