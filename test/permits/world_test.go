package permits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// latchWorld is kit.Fake with a latch at n, which is gone at the end, as is everything else.
func latchWorld(t *testing.T, n int, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		wantDid(t, true)(c.NewLatch("x").TrySetCount(background, n))
		t.Cleanup(func() { time.Sleep(kit.CallsLive) })
		f(t, w)
	})
}

// worlds are those of a semaphore or a latch at n, by what it is.
var worlds = map[string]func(t *testing.T, n int, f func(t *testing.T, w *kit.World)){
	"permits": kit.PermitsWorld, "semaphore": kit.CounterWorld, "latch": latchWorld,
}

// underFaults runs f with each fault, which hits the next call of a script that is named to once.
func underFaults(
	t *testing.T, kind string, n int,
	f func(t *testing.T, w *kit.World, c *holdfast.Client, once func(script string)),
) {
	t.Helper()
	for name, fault := range kit.Faults {
		t.Run(name, func(t *testing.T) {
			worlds[kind](t, n, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				f(t, w, c, func(script string) { kit.Once(d, script, fault) })
			})
		})
	}
}

// wantDid checks whether a call has done something.
func wantDid(t *testing.T, want bool) func(did bool, err error) {
	t.Helper()
	return func(did bool, err error) {
		t.Helper()
		if did != want || err != nil {
			t.Fatalf("%v, %v; want %v", did, err, want)
		}
	}
}

// within checks that so much time has passed.
func within(t *testing.T, since time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(since); took < least || took > most {
		t.Errorf("it took %v, want %v to %v", took, least, most)
	}
}

// lostWithin waits until a hold is lost, and checks when that was.
func lostWithin(t *testing.T, h *holdfast.Hold, since time.Time, least, most time.Duration) {
	t.Helper()
	kit.LostAt(t, h, since)
	within(t, since, least, most)
}

// wantFree checks how many permits are available.
func wantFree(t *testing.T, s kit.Inspectable, want int) {
	t.Helper()
	if free, err := kit.Available(s); free != want || err != nil {
		t.Errorf("%d available, %v; want %d", free, err, want)
	}
}

// refusing starts a call that waits, and returns what waits until it has failed.
func refusing(t *testing.T, call func() error, want error) (wait func()) {
	t.Helper()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		kit.WantError(t, call(), want)
	}()
	return func() { <-gone }
}

// fixed are the options of a hold with a lease of that length, if it is to have one.
func fixed(yes bool, lease time.Duration) []holdfast.LockOption {
	if !yes {
		return nil
	}
	return []holdfast.LockOption{holdfast.FixedLease(lease)}
}

// announced returns what is announced on a channel, when it is asked.
func announced(w *kit.World, channel string) func() []string {
	var mu sync.Mutex
	var said []string
	listener := w.Server.Driver().Listen(func(e driver.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == driver.Message {
			said = append(said, e.Payload)
		}
	})
	w.T.Cleanup(listener.Close)
	listener.Subscribe(channel)
	time.Sleep(time.Millisecond)
	return func() []string {
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		return said
	}
}

// counting is either semaphore, as far as taking and giving back go.
type counting struct {
	name string // in worlds
	// acquire returns what gives the permits back.
	acquire func(ctx context.Context, c *holdfast.Client, n int) (func() error, error)
}

// world is one with n permits.
func (k *counting) world(t *testing.T, n int, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	worlds[k.name](t, n, f)
}

var bothSemaphores = []counting{
	{"permits", func(ctx context.Context, c *holdfast.Client, n int) (func() error, error) {
		h, err := c.NewPermitSemaphore("x").Acquire(ctx, n)
		return h.Unlock, err
	}},
	{"semaphore", func(ctx context.Context, c *holdfast.Client, n int) (func() error, error) {
		s := c.NewUnleasedSemaphore("x")
		return func() error { return s.Release(n) }, s.Acquire(ctx, n)
	}},
}

// forBoth runs f for each semaphore, in a world of n permits.
func forBoth(t *testing.T, n int, f func(t *testing.T, w *kit.World, k *counting)) {
	t.Helper()
	for _, k := range bothSemaphores {
		t.Run(k.name, func(t *testing.T) {
			k.world(t, n, func(t *testing.T, w *kit.World) { f(t, w, &k) })
		})
	}
}

// take acquires, which has to succeed.
func (k *counting) take(t *testing.T, c *holdfast.Client, n int) (back func() error) {
	t.Helper()
	back, err := k.acquire(background, c, n)
	kit.OK(t, err)
	return back
}

// stream has so many clients take one permit each for a while, again and again,
// until the returned function is called. That returns when they got in, since the
// beginning.
func (k *counting) stream(t *testing.T, w *kit.World, clients int, work time.Duration) (stop func() []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	start := time.Now()
	var mu sync.Mutex
	var in []time.Duration
	var wg sync.WaitGroup
	for range clients {
		c, _ := w.Client()
		wg.Go(func() {
			for {
				back, err := k.acquire(ctx, c, 1)
				if err != nil {
					kit.WantError(t, err, context.Canceled)
					return
				}
				mu.Lock()
				in = append(in, time.Since(start))
				mu.Unlock()
				time.Sleep(work)
				kit.OK(t, back())
			}
		})
		time.Sleep(time.Millisecond)
	}
	return func() []time.Duration {
		cancel()
		wg.Wait()
		return in
	}
}

// callers gives callers up after several times, while a call suffers from several faults.
func callers(t *testing.T, f func(t *testing.T, fault memdriver.Fault, after time.Duration)) {
	t.Helper()
	for name, fault := range map[string]memdriver.Fault{
		"slow":       {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
		"repeated":   {DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 5 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprint(name, after), func(t *testing.T) { f(t, fault, after) })
		}
	}
}
