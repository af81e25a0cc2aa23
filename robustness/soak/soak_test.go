package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// referee knows who is inside of each lock, as those who are have been told.
type referee struct {
	mu     sync.Mutex
	inside map[string][]*visit
}

// visit is one hold of one lock.
type visit struct {
	held
	who    string
	writes bool
}

// enter notes a visit, and says who is inside that must not be. A hold whose context has ended is not.
func (r *referee) enter(kind lockKind, name string, v *visit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var also []*visit
	for _, other := range r.inside[name] {
		if other.Context().Err() == nil {
			also = append(also, other)
		}
	}
	r.inside[name] = append(r.inside[name], v)
	if v.Context().Err() != nil || kind.room == anybody || kind.room > len(also) {
		return nil
	}
	if kind.room == readers && !v.writes && !slices.ContainsFunc(also, func(other *visit) bool { return other.writes }) {
		return nil
	}
	if len(also) == 0 {
		return nil
	}
	return fmt.Errorf("%s and %s are inside %q at once", v.who, also[0].who, name)
}

func (r *referee) leave(name string, v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside[name] = slices.DeleteFunc(r.inside[name], func(other *visit) bool { return other == v })
}

// counts are what has happened.
type counts struct{ cycles, granted, lost, refused, failed atomic.Int64 }

const (
	// enoughRounds is from how many on chance does not look like growth: it would in one of C(12, 6) = 924.
	enoughRounds = 18

	soakSides   = 4
	soakWorkers = 6 // of each side
	soakNames   = 2 // of each kind
)

// TestSoak has four processes use every kind of lock, with faults all the time. At times it lets all come
// to rest, and notes what there is: nothing may grow. No two holds overlap that exclude each other.
func TestSoak(t *testing.T) {
	sayAgain(t, fmt.Sprintf("make soak FOR=%v SEED=%d", *length, *seed))
	// The file stays small, since a server that restarts reads all of it: after an hour that took 20 s.
	server := redistest.Start(t, redistest.WithAppendOnly(), redistest.WithConfig("appendfsync always", "auto-aof-rewrite-min-size 1mb"))
	before := runtime.NumGoroutine()
	s := &soak{t: t, server: server, rng: rand.New(rand.NewPCG(*seed, 0)), referee: referee{inside: map[string][]*visit{}}}
	for i := range soakSides {
		s.sides = append(s.sides, openSide(t, server, i, short, nil))
	}
	for i := range soakNames {
		setUp(t, s.sides[0].clients, strconv.Itoa(i))
	}
	start := time.Now()
	round := min(max(*length/(4*enoughRounds), time.Second), time.Minute)
	var samples []sample
	need := 3
	if *length >= 2*time.Minute {
		need = enoughRounds + 1
	}
	for n := 0; time.Since(start) < *length || len(samples) < need; n++ {
		s.round(uint64(n), round)
		if t.Failed() {
			break
		}
		rest(t, server, short.forgotten()+short.lease+10*time.Second)
		for _, side := range s.sides {
			side.proxy.Cut() // or how many connections there are is a matter of the last outages
		}
		samples = append(samples, rest(t, server, short.forgotten()+short.lease+10*time.Second))
		showf("soak: %v: %d cycles, %d granted, %d lost, %d refused, %d failed, %d faults; at rest: %v", time.Since(start).Round(time.Second),
			s.cycles.Load(), s.granted.Load(), s.lost.Load(), s.refused.Load(), s.failed.Load(), s.faults, samples[n])
	}
	if !t.Failed() && len(samples) > enoughRounds {
		for _, grown := range growth(samples[1:]) {
			t.Error(grown)
		}
	}
	for _, side := range s.sides { // connections were cut: Close has a moment to say good-bye, and no more
		for _, c := range side.clients {
			if _, err := c.NewMutex("x").Inspect(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	if s.granted.Load() == 0 || s.faults == 0 {
		t.Errorf("%d granted, %d faults", s.granted.Load(), s.faults)
	}
	for _, side := range s.sides {
		if err := side.Close(); err != nil {
			t.Error(err)
		}
		side.close()
		side.proxy.Close()
	}
	wantStart(t, server, short, before, soakSides*len(clients{}))
}

// sayAgain says, if the test fails, what command repeats it: with the same faults, but not the same timing.
func sayAgain(t *testing.T, command string) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: %s", command)
		}
	})
}

// soak is one run.
type soak struct {
	counts

	t       *testing.T
	server  *redistest.Server
	sides   []*side
	rng     *rand.Rand // of the faults
	faults  int
	referee referee
}

// round has all work for a while, with faults, and come to rest.
func (s *soak) round(n uint64, lasts time.Duration) {
	var stop atomic.Bool
	var working sync.WaitGroup
	for i, side := range s.sides {
		for j := range soakWorkers {
			rng := rand.New(rand.NewPCG(*seed, 1000*(n+1)+uint64(100*i+j)))
			working.Go(func() {
				for !stop.Load() && !s.t.Failed() {
					s.cycle(side, rng)
				}
			})
		}
	}
	for end := time.Now().Add(lasts); time.Now().Before(end) && !s.t.Failed(); {
		time.Sleep(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond))))
		s.fault()
	}
	stop.Store(true)
	working.Wait()
	for _, side := range s.sides {
		side.proxy.Forget() // the requests that it has counted
	}
}

// cycle is one lock and what is done with it.
func (s *soak) cycle(side *side, rng *rand.Rand) {
	kind := lockKinds[rng.IntN(len(lockKinds))]
	name, i := kind.name+strconv.Itoa(rng.IntN(soakNames)), rng.IntN(9)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(rng.Int64N(int64(50*time.Millisecond))), cancel).Stop()
	}
	s.cycles.Add(1)
	hold, err := kind.take(ctx, side.clients, name, i)
	var down *holdfast.BackendError
	switch {
	case err == nil:
	case errors.Is(err, holdfast.ErrLocked), errors.Is(err, context.Canceled), errors.Is(err, holdfast.ErrNotZero):
		s.refused.Add(1)
		return
	case errors.As(err, &down), errors.Is(err, holdfast.ErrLost):
		s.failed.Add(1)
		return
	default:
		s.t.Errorf("%s: %v", name, err)
		return
	}
	s.granted.Add(1)
	v := &visit{held: hold, who: fmt.Sprintf("%s %p", side.name, hold), writes: kind.room != readers || writes(i)}
	if err := s.referee.enter(kind, name, v); err != nil {
		s.t.Error(err)
	}
	if lock, ok := hold.(*holdfast.Hold); ok && rng.IntN(8) == 0 {
		_ = lock.Extend(hold.Context(), short.lease) // it may fail: the server may be away
	}
	switch rng.IntN(60) {
	case 0:
		time.Sleep(short.lease + time.Duration(rng.Int64N(int64(short.lease)))) // it is renewed
	case 1, 2, 3, 4, 5:
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
	}
	s.referee.leave(name, v)
	switch err := hold.Unlock(); {
	case errors.Is(err, holdfast.ErrLost):
		s.lost.Add(1)
	case errors.As(err, &down):
		s.failed.Add(1)
	case err != nil:
		s.t.Errorf("%s: Unlock: %v", name, err)
	}
}

// fault is one of those that two holds must not overlap in.
func (s *soak) fault() {
	s.faults++
	side := s.sides[s.rng.IntN(len(s.sides))]
	lasts := time.Duration(s.rng.Int64N(int64(300 * time.Millisecond)))
	switch s.rng.IntN(12) {
	case 0, 1:
		side.proxy.Cut()
	case 2, 3:
		side.proxy.SwallowNextReply(redistest.Command("EVALSHA"), redistest.ThenReset)
	case 4:
		side.proxy.SwallowNextReply(redistest.Command("EVALSHA"), redistest.ThenSilence)
	case 5, 6:
		dir := []redistest.Direction{redistest.ToServer, redistest.ToClient, redistest.ToServer | redistest.ToClient}[s.rng.IntN(3)]
		side.proxy.BlackHole(dir, true)
		time.Sleep(lasts)
		side.proxy.BlackHole(dir, false)
	case 7:
		side.proxy.Delay(redistest.ToServer, lasts/10)
		time.Sleep(lasts)
		side.proxy.Delay(redistest.ToServer, 0)
	case 8:
		side.proxy.Refuse(true)
		side.proxy.Cut()
		time.Sleep(lasts)
		side.proxy.Refuse(false)
	case 9:
		s.server.Stop()
		time.Sleep(lasts)
		s.server.Cont()
	case 10:
		s.server.Cli(s.t, "CLIENT", "KILL", "TYPE", "pubsub")
		s.server.Cli(s.t, "SCRIPT", "FLUSH")
	case 11:
		if s.rng.IntN(4) == 0 {
			s.server.Kill()
			time.Sleep(lasts)
			s.server.Restart()
		}
	}
}

// growth says what grows from the first samples to the last. What is measured at rest goes up and down, so a
// thing grows if there is more of it in each sample of the last third than in any of the first, by a
// tenth or more of it where it is memory.
func growth(samples []sample) (all []string) {
	third := len(samples) / 3
	for what, of := range map[string]func(s sample) float64{
		"goroutines":  func(s sample) float64 { return float64(s.goroutines) },
		"heap":        func(s sample) float64 { return float64(s.heap) },
		"connections": func(s sample) float64 { return float64(s.connections) },
		"keys": func(s sample) (n float64) {
			for _, some := range s.keys {
				n += float64(some)
			}
			return n
		},
	} {
		most, least := of(samples[0]), of(samples[len(samples)-1])
		for i := range third {
			most, least = max(most, of(samples[i])), min(least, of(samples[len(samples)-1-i]))
		}
		if what == "heap" {
			most *= 1.1
		}
		if least > most {
			all = append(all, fmt.Sprintf("%s grow: at most %.0f in the first third, at least %.0f in the last", what, most, least))
		}
	}
	slices.Sort(all)
	return all
}

// What grows is found, what goes up and down is not.
func TestGrowth(t *testing.T) {
	series := func(of func(i int) sample) (all []sample) {
		for i := range enoughRounds {
			all = append(all, of(i))
		}
		return all
	}
	flat := func(i int) sample {
		return sample{goroutines: 90 + i%3, heap: uint64(1000 + 50*(i%2)), connections: 10 - i%2, keys: map[string]int{tokens: 2}}
	}
	if got := growth(series(flat)); got != nil {
		t.Error(got)
	}
	for name, grow := range map[string]func(s *sample, i int){
		"goroutines":  func(s *sample, i int) { s.goroutines += i },
		"heap":        func(s *sample, i int) { s.heap += uint64(400 * i) },
		"connections": func(s *sample, i int) { s.connections += i },
		"keys":        func(s *sample, i int) { s.keys[others] = i },
	} {
		got := growth(series(func(i int) sample {
			s := flat(i)
			grow(&s, i)
			return s
		}))
		if len(got) != 1 || got[0][:4] != name[:4] {
			t.Errorf("%s: %q", name, got)
		}
	}
}
