package multi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestMultiStress runs random programs with locks of several kinds on three
// servers, with every fault that a network has. Whatever happens, no two holds of
// one lock overlap, every call ends, and in the end nothing is left.
// -multistress.seeds runs more of them.
var multiStressSeeds = flag.Uint64("multistress.seeds", 5, "how many random programs TestMultiStress runs")

func TestMultiStress(t *testing.T) {
	for seed := range *multiStressSeeds {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			s := &multiStress{t: t, seed: seed, held: map[*holdfast.Hold][]string{}}
			s.run(kit.Several(w, 3))
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type multiStress struct {
	t    *testing.T
	seed uint64
	mu   sync.Mutex
	held map[*holdfast.Hold][]string // which locks
	had  int
}

func (s *multiStress) run(first *kit.Servers) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	lease := []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second}[rng.IntN(3)]
	timeout := []time.Duration{150 * time.Millisecond, time.Second, 6 * time.Second}[rng.IntN(3)]
	var group sync.WaitGroup
	processes := make([]*kit.Servers, 3)
	faulty := rng.Float64() * 0.3
	for i := range processes {
		processes[i] = first.Again(holdfast.WithLease(lease), holdfast.WithTimeout(timeout))
		for _, d := range processes[i].Drivers {
			s.spoil(d, rng.Uint64(), faulty, timeout)
		}
		for j := range 3 {
			rng := rand.New(rand.NewPCG(s.seed, uint64(2+3*i+j)))
			group.Go(func() { s.act(rng, processes[i], lease, timeout) })
		}
	}
	group.Wait()
	for _, p := range processes {
		p.Fault(memdriver.Fault{}, 0, 1, 2)
	}
	time.Sleep(2*lease + 10*timeout) // what Redis did not answer to ends with its lease
	first.WantFree(s.t)
	if s.had == 0 {
		s.t.Error("nobody ever had a lock")
	}
}

// spoil makes some of a driver's calls suffer.
func (s *multiStress) spoil(d *memdriver.Driver, seed uint64, faulty float64, timeout time.Duration) {
	rng := rand.New(rand.NewPCG(s.seed, seed))
	var mu sync.Mutex
	delay := func() time.Duration { return time.Duration(rng.Int64N(int64(timeout))) }
	d.SetFaults(func(driver.Call) memdriver.Fault {
		mu.Lock()
		defer mu.Unlock()
		f := memdriver.Fault{
			DelayRequest: time.Duration(rng.IntN(5)) * time.Millisecond,
			DelayReply:   time.Duration(rng.IntN(5)) * time.Millisecond,
		}
		if rng.Float64() >= faulty {
			return f
		}
		switch rng.IntN(6) {
		case 0:
			f.LoseRequest = true
		case 1:
			f.LoseReply = true
		case 2:
			f.DelayRequest = delay()
		case 3:
			f.DelayReply = delay()
		case 4:
			f.Repeat, f.RepeatAfter, f.LoseReply = true, delay(), true
		case 5:
			f.Refuse = errors.New("connection refused")
		}
		return f
	})
}

// locker returns some lock of some kind, and which locks it consists of.
func (s *multiStress) locker(rng *rand.Rand, p *kit.Servers) (holdfast.Locker, []string) {
	if rng.IntN(4) == 0 {
		return p.Redlock("r"), []string{"r"}
	}
	var lockers []holdfast.Locker
	seen := map[string]bool{}
	far := rng.IntN(2) // 0: on one server
	for range 1 + rng.IntN(3) {
		server := far * rng.IntN(3)
		name := string(rune('a' + rng.IntN(3)))
		seen[fmt.Sprint(server, name)] = true
		lockers = append(lockers, p.Clients[server].NewMutex(name))
	}
	if rng.IntN(6) == 0 {
		seen["r"] = true
		lockers = append(lockers, p.Redlock("r"))
	}
	return holdfast.NewMultiLock(lockers...), slices.Collect(maps.Keys(seen))
}

func (s *multiStress) act(rng *rand.Rand, p *kit.Servers, lease, timeout time.Duration) {
	for range 8 {
		l, names := s.locker(rng, p)
		var options []holdfast.LockOption
		if rng.IntN(3) == 0 {
			options = append(options, holdfast.FixedLease(lease/2+time.Duration(rng.Int64N(int64(lease)))))
		}
		options = append(options, holdfast.Wait(time.Duration(rng.IntN(3))*lease))
		ctx, cancel := context.WithCancel(background)
		if rng.IntN(4) == 0 {
			time.AfterFunc(time.Duration(rng.IntN(50))*time.Millisecond, cancel)
		}
		start := time.Now()
		h, err := l.Lock(ctx, options...)
		// The wait, or a try of each lock; and then giving back what was had.
		if took, most := time.Since(start), 2*lease+time.Duration(len(names)+1)*timeout+time.Second; took > most {
			s.t.Errorf("Lock of %v took %v, more than %v", names, took, most)
		}
		if err == nil {
			s.hold(rng, l, h, names, lease)
		}
		cancel()
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
}

func (s *multiStress) hold(rng *rand.Rand, l holdfast.Locker, h *holdfast.Hold, names []string, lease time.Duration) {
	s.enter(h, names)
	if rng.IntN(3) == 0 {
		if in, err := l.TryLock(h.Context()); err == nil {
			time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
			_ = in.Unlock() // it may be lost, or not answered
		}
	}
	if rng.IntN(4) == 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(2 * lease))))
	}
	if d := time.Until(h.Deadline()); h.Context().Err() == nil && d < 0 {
		s.t.Errorf("%v: the deadline has passed by %v", names, -d)
	}
	s.mu.Lock()
	delete(s.held, h)
	s.mu.Unlock()
	_ = h.Unlock()
}

// enter checks that nobody else holds any of the locks.
func (s *multiStress) enter(h *holdfast.Hold, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had++
	for other, theirs := range s.held {
		both := slices.ContainsFunc(theirs, func(name string) bool { return slices.Contains(names, name) })
		if both && other.Context().Err() == nil && h.Context().Err() == nil {
			s.t.Errorf("seed %d: %v holds some of %v, and %v of %v", s.seed, other.Owner(), theirs, h.Owner(), names)
		}
	}
	s.held[h] = names
}
