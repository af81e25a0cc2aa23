package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestPermitsStress is TestStress of permit semaphores: never are more permits trusted than there are, and at the end all are
// available. Many are granted by message, to those who stand in line; others expire, or their waiters leave meanwhile.
func TestPermitsStress(t *testing.T) {
	holds := 0
	for seed := *stressFirst; seed < *stressFirst+uint64(*stressSeeds); seed++ {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			p := &permitting{stress: newStress(t, w, seed), permits: map[*record]int{}}
			p.kind = "permits"
			p.run()
			holds += p.holds
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d holds", holds)
}

// permitting is one random program of permits.
type permitting struct {
	*stress

	total   int             // of each semaphore
	permits map[*record]int // of each hold, guarded by mu
	holds   int
}

func (p *permitting) run() {
	s := p.stress
	rng := rand.New(rand.NewPCG(s.seed, 1))
	p.total = 1 + rng.IntN(4)
	s.all = []*stressClient{s.client(0), s.client(1), s.client(2)}
	for _, name := range s.names {
		s.w.Do("SET", name, fmt.Sprint(p.total))
	}
	short := []time.Duration{5 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}[rng.IntN(3)]
	var actors sync.WaitGroup
	for i := range 2 + rng.IntN(8) {
		c := s.all[rng.IntN(len(s.all))]
		actors.Go(func() { p.actor(c, rand.New(rand.NewPCG(s.seed, uint64(i+10))), short) })
	}
	for end := time.Now().Add(time.Duration(5+rng.IntN(25)) * time.Second); time.Now().Before(end); { // what happens to all
		time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		c := s.all[rng.IntN(len(s.all))]
		switch {
		case s.uses['c'] && rng.IntN(3) == 0:
			s.setClock([]int64{0, 3_600_000, -3_600_000, 400, -400, 30_000}[rng.IntN(6)])
		case s.uses['m'] && rng.IntN(3) == 0:
			c.d.LoseMessages(rng.IntN(2) == 0)
		case rng.IntN(4) == 0:
			c.mu.Lock()
			c.faulty = []float64{0, 0.2, 0.5, 1}[rng.IntN(4)]
			c.mu.Unlock()
		}
	}
	if s.uses['k'] {
		s.close(s.all[rng.IntN(len(s.all))])
	}
	p.rest(&actors)
}

// rest ends all faults; every permit comes back, and nothing else is left.
func (p *permitting) rest(actors *sync.WaitGroup) {
	s := p.stress
	s.calm.Store(true)
	s.stopping.Store(true)
	for _, c := range s.all {
		c.d.LoseMessages(false)
	}
	calm := time.Now()
	actors.Wait()
	if took, most := time.Since(calm), 20*(s.lease+time.Minute); took > most {
		s.failf("the actors needed %v to come to rest", took)
	}
	time.Sleep(4*s.timeout + 4*time.Second + s.lease)
	last, _ := s.w.Client()
	for _, name := range s.names {
		if free, err := kit.Available(last.NewPermitSemaphore(name)); free != p.total || err != nil { // it takes note of those that have expired
			s.failf("%d of %d are available, %v; held: %q", free, p.total, err, s.w.Ask("ZRANGE", protocol.PermitsKey(name), "0", "-1", "WITHSCORES"))
		}
		if got := s.w.Ask("ZRANGE", kit.LineKey(name), "0", "-1"); len(got) > 0 && !s.uses['k'] { // else Close may not have had an answer
			s.failf("in line: %v", got)
		}
		s.w.Do("DEL", name)
	}
	var closing sync.WaitGroup
	for _, c := range s.all {
		closing.Go(func() { s.close(c) })
	}
	closing.Wait()
	time.Sleep(2 * time.Minute)
}

// actor acquires some permits again and again, for a while, or gives up.
func (p *permitting) actor(c *stressClient, rng *rand.Rand, short time.Duration) {
	s := p.stress
	upTo := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most) + 1)) }
	for !s.stopping.Load() && !c.closed.Load() {
		time.Sleep(upTo(short))
		name := s.names[rng.IntN(len(s.names))]
		if s.uses['f'] && rng.IntN(20) == 0 {
			p.force(c, name)
			continue
		}
		n := 1
		if rng.IntN(3) == 0 {
			n = 1 + rng.IntN(p.total)
		}
		var options []holdfast.LockOption
		if rng.IntN(3) == 0 {
			options = append(options, holdfast.FixedLease(50*time.Millisecond+upTo(s.lease)))
		}
		ctx, cancel := background, context.CancelFunc(func() {})
		switch rng.IntN(6) {
		case 0:
			options = append(options, holdfast.Wait(1+upTo(2*time.Second)))
		case 1:
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(upTo([]time.Duration{10 * time.Millisecond, s.timeout, 5 * time.Second}[rng.IntN(3)]), cancel)
		case 2: // more than there are
			if rng.IntN(3) == 0 {
				n = p.total + 1
			}
			options = append(options, holdfast.Wait(1+upTo(time.Second)))
		}
		h, err := c.NewPermitSemaphore(name).Acquire(ctx, n, options...)
		if err != nil {
			s.logf("client %d: Acquire(%s, %d): %v", c.id, name, n, err)
			cancel()
			continue
		}
		r := &record{Hold: h, from: time.Now(), client: c}
		p.granted(r, n)
		switch rng.IntN(8) {
		case 0:
			time.Sleep(upTo(min(3*s.lease, time.Minute))) // let the watchdog work
		default:
			time.Sleep(upTo(short))
		}
		p.unlock(r)
		cancel()
	}
}

// granted checks that no more permits are trusted than there are.
func (p *permitting) granted(r *record, n int) {
	s := p.stress
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("client %d: Acquire(%s, %d) has %v until %v", r.client.id, r.Name(), n, r.PermitIDs(), r.Deadline().Sub(s.start))
	now := time.Now()
	r.excused = now.Before(s.forced[r.Name()])
	p.permits[r] = n
	p.holds++
	if n > p.total {
		s.failf("%d permits of %d", n, p.total)
	}
	sum := 0
	for o, n := range p.permits {
		if o.Name() == r.Name() && !o.excused && o.Context().Err() == nil && o.Deadline().After(now) {
			sum += n
		}
	}
	if sum > p.total {
		s.failf("%s: %d permits of %d are trusted", r.Name(), sum, p.total)
	}
}

func (p *permitting) unlock(r *record) {
	s := p.stress
	s.mu.Lock()
	delete(p.permits, r)
	s.mu.Unlock()
	alive := r.Context().Err() == nil
	err := r.Unlock()
	s.logf("client %d: Unlock(%s): %v", r.client.id, r.Name(), err)
	s.mu.Lock()
	_, forced := s.forced[r.Name()]
	s.mu.Unlock()
	var failed *holdfast.BackendError
	switch {
	case err == nil || errors.As(err, &failed):
	case errors.Is(err, holdfast.ErrClosed) && r.client.closed.Load():
	case errors.Is(err, holdfast.ErrLost) && (!alive || forced || errors.Is(context.Cause(r.Context()), holdfast.ErrLost)):
	default:
		s.failf("Unlock, alive %v: %v", alive, err)
	}
}

// force takes all permits away. Whoever holds some, or gets some while the order may still be on its way, is not accounted for.
func (p *permitting) force(c *stressClient, name string) {
	s := p.stress
	until := func(end time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forced[name] = end
		for r := range p.permits {
			r.excused = r.excused || r.Name() == name
		}
	}
	until(time.Now().Add(time.Hour))
	_, err := c.NewPermitSemaphore(name).ForceUnlock(background)
	s.logf("client %d: ForceUnlock(%s): %v", c.id, name, err)
	until(time.Now().Add(s.timeout/3 + time.Second))
}
