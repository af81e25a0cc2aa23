package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The simulations of docs/scale.md: many processes, many holds, and a failover in the middle. They
// are small unless flags make them large.
var (
	scaleProcesses = flag.Int("scale.processes", 50, "how many processes want one lock in TestScaleHerd and TestScaleHerdFailover")
	scaleWindow    = flag.Duration("scale.window", 2*time.Second, "for how long TestScaleHerd and TestScaleWaiters look, in fake time")
	scaleHolds     = flag.Int("scale.holds", 1_000, "how many holds TestScaleHolds keeps")
	scaleClients   = flag.Int("scale.clients", 10, "among how many processes TestScaleHolds and TestScaleFailover divide what they have")
	scaleLocks     = flag.Int("scale.locks", 10, "how many locks are wanted in TestScaleFailover, by ten goroutines each")
	scaleTrip      = flag.Duration("scale.trip", time.Millisecond, "the way to the simulated server and back")
	scaleScript    = flag.Duration("scale.script", 10*time.Microsecond, "the simulated server's time for a script")
	scaleMessage   = flag.Duration("scale.message", 4*time.Microsecond, "the simulated server's time for a message to one subscriber")
)

const (
	scaleGrain = 50 * time.Millisecond // where there are many keys: see costs
	scaleLag   = time.Second           // of the replica
	scaleAway  = 12 * time.Second      // until it is promoted
)

func scaleCosts() costs {
	return costs{trip: *scaleTrip, script: *scaleScript, message: *scaleMessage}
}

// A watch sees who is inside one lock, and for how long it stands free.
type watch struct {
	all *watches

	inside    []*holdfast.Hold
	freeSince time.Time // zero while somebody is inside, and at first
}

// watches are those of all locks of a simulation. It has one mutex: there is one processor.
type watches struct {
	mu        sync.Mutex
	holds     int
	free      []time.Duration // before each hold but a lock's first
	freeUntil []time.Time     // when these ended
	together  []time.Duration // how long two trusted holds of one lock were inside
	losses    map[string]int  // by reason
	lostAt    []time.Time     // when
	failures  map[string]int  // of Lock and Unlock, but for losses and the end of the simulation
	overlap   sync.WaitGroup  // those who wait for an overlap's end
}

func newWatches() *watches {
	return &watches{losses: map[string]int{}, failures: map[string]int{}}
}

func (w *watch) enter(h *holdfast.Hold) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	for _, other := range w.inside {
		if other.Context().Err() == nil && h.Context().Err() == nil {
			since := time.Now()
			w.all.overlap.Go(func() {
				select {
				case <-other.Context().Done():
				case <-h.Context().Done():
				}
				w.all.mu.Lock()
				defer w.all.mu.Unlock()
				w.all.together = append(w.all.together, time.Since(since))
			})
		}
	}
	w.inside = append(w.inside, h)
	w.all.holds++
	if !w.freeSince.IsZero() {
		w.all.free = append(w.all.free, time.Since(w.freeSince))
		w.all.freeUntil = append(w.all.freeUntil, time.Now())
	}
	w.freeSince = time.Time{}
}

func (w *watch) leave(h *holdfast.Hold) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.inside = slices.DeleteFunc(w.inside, func(other *holdfast.Hold) bool { return other == h })
	if len(w.inside) == 0 {
		w.freeSince = time.Now()
	}
	var lost *holdfast.LostError
	if errors.As(context.Cause(h.Context()), &lost) {
		w.all.losses[string(lost.Reason)]++
		w.all.lostAt = append(w.all.lostAt, time.Now())
	}
}

// use takes the lock again and again, for as long as stay says each time, until ctx ends.
func (w *watch) use(ctx context.Context, l *holdfast.Mutex, stay func() time.Duration) {
	for ctx.Err() == nil {
		h, err := l.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.all.failed("Lock", err)
				time.Sleep(time.Second)
			}
			continue
		}
		w.enter(h)
		select {
		case <-time.After(stay()):
		case <-h.Context().Done():
		case <-ctx.Done():
		}
		w.leave(h)
		if err := h.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
			w.all.failed("Unlock", err)
		}
	}
}

// failed counts a call that failed because the server is away, or for another reason.
func (w *watches) failed(call string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, errAway) {
		err = errAway
	}
	w.failures[call+": "+err.Error()]++
}

// count is how many holds there have been.
func (w *watches) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holds
}

// frees are how long locks stood free, of those times that ended after a moment, sorted.
func (w *watches) frees(after time.Time) (all []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range w.free {
		if w.freeUntil[i].After(after) {
			all = append(all, d)
		}
	}
	slices.Sort(all)
	return all
}

// spreadOfTimes writes the median, the 99th percentile and the longest of sorted times.
func spreadOfTimes(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(p int) time.Duration { return sorted[(len(sorted)-1)*p/100].Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %v, 99 %% within %v, longest %v", at(50), at(99), at(100))
}

// wantSound checks that no two were inside, and nothing failed.
func (w *watches) wantSound(t *testing.T) {
	t.Helper()
	w.overlap.Wait()
	if len(w.together) > 0 || len(w.losses) > 0 || len(w.failures) > 0 {
		t.Errorf("%d times two were inside, losses %v, failures %v", len(w.together), w.losses, w.failures)
	}
}

// herd has many processes use one lock. They come bit by bit; when it returns, most have been
// refused, and know how many they are.
func herd(ctx context.Context, s *site, w *watch, stay time.Duration) *sync.WaitGroup {
	var all sync.WaitGroup
	coming := time.Duration(*scaleProcesses) * time.Millisecond
	for range *scaleProcesses {
		l := s.client().NewMutex("x")
		all.Go(func() {
			time.Sleep(rand.N(coming))
			w.use(ctx, l, func() time.Duration { return stay })
		})
	}
	time.Sleep(coming + 3*time.Second)
	return &all
}

// Many processes want one lock. What a hand-over costs, and what those cost who only wait.
func TestScaleHerd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, all := newSite(t, scaleCosts()), newWatches()
		w := &watch{all: all}
		ctx, cancel := context.WithCancel(background)
		waiters := herd(ctx, s, w, 20*time.Millisecond)
		from, before := time.Now(), s.counts()
		holds := all.count()
		time.Sleep(*scaleWindow)
		asked, handed := s.counts().since(before), all.count()-holds
		if handed == 0 {
			t.Fatal("the lock stood still")
		}
		frees := all.frees(from)
		t.Logf("%d processes, %v there and back, %v a script, %v a message: %d hand-overs in %v", *scaleProcesses,
			*scaleTrip, *scaleScript, *scaleMessage, handed, *scaleWindow)
		t.Logf("a hand-over: %.1f scripts, %d messages; free for: %s", float64(asked.all())/float64(handed), asked.sent/int64(handed), spreadOfTimes(frees))
		busy := time.Duration(asked.all())**scaleScript + time.Duration(asked.sent)**scaleMessage
		t.Logf("the server is busy for %.0f %% of the time", 100*float64(busy)/float64(*scaleWindow))
		// The way, and once more for one whose ask is old.
		if longest := frees[len(frees)-1]; longest > 2**scaleTrip+time.Millisecond {
			t.Errorf("the lock stood free for %v", longest)
		}
		cancel()
		waiters.Wait()
		all.wantSound(t)
	})
}

// One process holds the lock, and many wait for it, for long: they hardly ask.
func TestScaleWaiters(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, all := newSite(t, scaleCosts()), newWatches()
		h := kit.Must(t)(s.client().NewMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		waiters := herd(ctx, s, &watch{all: all}, 0)
		time.Sleep(time.Minute) // what the first tries have set has gone by
		before := s.counts()
		time.Sleep(*scaleWindow)
		asked := s.counts().since(before)
		a := float64(asked.calls["acquire"]) / scaleWindow.Seconds()
		t.Logf("%d processes that only wait: %.1f tries a second, of all together", *scaleProcesses, a)
		// Each asks once more when the lease would have ended: after 20 to 30 s.
		if n := float64(*scaleProcesses); a > 1.2*min(n, 100)+n/20 {
			t.Error("too many ask")
		}
		if all.count() > 0 {
			t.Error("the lock was given to somebody else")
		}
		cancel()
		waiters.Wait()
		all.wantSound(t)
		kit.Unlock(t, h)
	})
}

// Many holds are kept for long by some processes. What the renewals are.
func TestScaleHolds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newSite(t, costs{trip: *scaleTrip, grain: scaleGrain})
		s.quiet = true
		each := *scaleHolds / *scaleClients
		holds := make([][]*holdfast.Hold, *scaleClients)
		start := time.Now()
		var takers sync.WaitGroup
		const hands, holdsWithin = 100, 10 * time.Second // of each process
		for i := range *scaleClients {
			c := s.client()
			holds[i] = make([]*holdfast.Hold, each)
			for hand := range hands {
				takers.Go(func() {
					for j := hand; j < each; j += hands {
						time.Sleep(rand.N(2 * holdsWithin * hands / time.Duration(each))) // they come bit by bit
						h, err := c.NewMutex(fmt.Sprintf("%d:%d", i, j)).Lock(background)
						if err != nil {
							t.Error(err)
							return
						}
						holds[i][j] = h
					}
				})
			}
		}
		takers.Wait()
		if t.Failed() {
			return
		}
		t.Logf("%d holds of %d processes, taken within %v", each**scaleClients, *scaleClients, time.Since(start).Round(time.Millisecond))
		time.Sleep(10 * time.Second)
		before := s.counts()
		const window = 30 * time.Second // a lease, in which each is renewed three times
		time.Sleep(window)
		asked := s.counts().since(before)
		calls, keys := asked.calls["renew"], asked.keys["renew"]
		most, _ := s.busiest(before.at, int(window/time.Second))
		t.Logf("%.0f renewals a second in %.0f calls, %d at most; %.1f holds a call", float64(keys)/window.Seconds(), float64(calls)/window.Seconds(),
			most, float64(keys)/float64(max(calls, 1)))
		lost := 0
		for _, some := range holds {
			for _, h := range some {
				if h.Context().Err() != nil {
					lost++
				}
			}
		}
		if lost > 0 {
			t.Errorf("%d holds were lost", lost)
		}
		if ratio := float64(keys) / float64(3*each**scaleClients); ratio < 0.9 || ratio > 1.2 {
			t.Errorf("each hold was renewed %.2f times as often as it should be", ratio)
		}
		if asked.all() != calls {
			t.Errorf("%d other calls", asked.all()-calls)
		}
	})
}

// Many locks are in use when the server fails over, and each is wanted all the time.
func TestScaleFailover(t *testing.T) {
	const wanting = 10
	c := costs{trip: *scaleTrip, grain: 10 * time.Millisecond}
	overFailover(t, c, func(ctx context.Context, s *site, all *watches) *sync.WaitGroup {
		clients := make([]*holdfast.Client, *scaleClients)
		for i := range clients {
			clients[i] = s.client()
		}
		var users sync.WaitGroup
		for i := range *scaleLocks {
			w := &watch{all: all}
			for j := range wanting {
				l := clients[(i+j)%len(clients)].NewMutex(fmt.Sprint("x:", i))
				users.Go(func() { w.use(ctx, l, func() time.Duration { return rand.N(20 * time.Second) }) })
			}
		}
		time.Sleep(40 * time.Second)
		t.Logf("%d locks, %d processes, %d goroutines", *scaleLocks, *scaleClients, *scaleLocks*wanting)
		return &users
	})
}

// One lock is wanted by many processes when the server fails over.
func TestScaleHerdFailover(t *testing.T) {
	overFailover(t, scaleCosts(), func(ctx context.Context, s *site, all *watches) *sync.WaitGroup {
		t.Logf("%d processes, one lock", *scaleProcesses)
		return herd(ctx, s, &watch{all: all}, 200*time.Millisecond)
	})
}

// overFailover has locks used across a failover.
func overFailover(t *testing.T, c costs, begin func(ctx context.Context, s *site, all *watches) *sync.WaitGroup) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s, all := newSite(t, c), newWatches()
		ctx, cancel := context.WithCancel(background)
		users := begin(ctx, s, all)
		before := s.counts()
		time.Sleep(20 * time.Second)
		t.Logf("%.0f calls a second", float64(s.counts().since(before).all())/20)
		acrossFailover(t, s, all)
		cancel()
		users.Wait()
		all.wantBounded(t)
	})
}

// acrossFailover says what a failover does to those who hold and wait.
func acrossFailover(t *testing.T, s *site, all *watches) {
	t.Helper()
	holds := all.count()
	down, up := s.failOver(scaleLag, scaleAway)
	away := s.counts()
	t.Logf("the server is away for %v; its replica lacks the last %v, in which %d holds began", up.Sub(down), scaleLag, all.count()-holds)
	time.Sleep(45 * time.Second)
	after := s.counts().since(away)
	during, at := s.busiest(down, int(scaleAway/time.Second))
	t.Logf("while it is away: %d calls in the busiest second, number %d", during, at+1)
	most, second := s.busiest(up, 45)
	t.Logf("after it: %d calls in the busiest second, number %d; %.0f a second over 45 s", most, second+1, float64(after.all())/45)
	t.Logf("locks that were had after it had stood free for: %s", spreadOfTimes(all.frees(up)))
	all.mu.Lock()
	defer all.mu.Unlock()
	var told []time.Duration
	for _, at := range all.lostAt {
		told = append(told, at.Sub(up))
	}
	slices.Sort(told)
	t.Logf("holds lost: %v; told after it came up: %s", all.losses, spreadOfTimes(told))
	slices.Sort(all.together)
	t.Logf("two inside one lock: %d times, for: %s", len(all.together), spreadOfTimes(all.together))
	if all.holds == holds {
		t.Error("nobody has got a lock again")
	}
}

// wantBounded checks what a failover may do: what replication has lost may be granted again,
// until the first holder's next renewal, and nothing else.
func (w *watches) wantBounded(t *testing.T) {
	t.Helper()
	w.overlap.Wait()
	const renewed = holdfast.DefaultLease/3 + 2*time.Second
	for _, d := range w.together {
		if d > renewed {
			t.Errorf("two were inside for %v", d)
		}
	}
	t.Logf("calls that failed: %v", w.failures)
	for what := range w.failures {
		if !strings.HasSuffix(what, errAway.Error()) {
			t.Error("it did not fail for the outage: ", what)
		}
	}
	if free := w.frees(time.Time{}); len(free) > 0 && free[len(free)-1] > scaleAway+holdfast.DefaultLease+5*time.Second {
		t.Errorf("a lock stood free for %v", free[len(free)-1])
	}
}
