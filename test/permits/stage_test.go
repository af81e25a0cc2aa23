package permits

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a server where something is counted at x, under fake time, and two clients.
type stage struct {
	*kit.World

	c, other        *holdfast.Client
	d               *memdriver.Driver         // c's
	permits, theirs *holdfast.PermitSemaphore // by c, and by the other one
	semaphore       *holdfast.UnleasedSemaphore
	latch           *holdfast.Latch
}

// on runs f where there are n permits of a semaphore with leases ("permits") or without ("semaphore"), or a latch is at n. Permits
// are there again at the end, and then nothing else is left; a latch has gone. With any other kind there is nothing, and what stands
// at x at the end is deleted.
func on(t *testing.T, kind string, n int, f func(s *stage)) {
	t.Helper()
	begin := func(_ *testing.T, w *kit.World) {
		s := &stage{World: w}
		s.c, s.d = w.Client()
		s.other, _ = w.Client()
		s.permits, s.theirs = s.c.NewPermitSemaphore("x"), s.other.NewPermitSemaphore("x")
		s.semaphore, s.latch = s.c.NewUnleasedSemaphore("x"), s.c.NewLatch("x")
		if kind == "latch" {
			kit.WantDid(w.T, true)(s.latch.TrySetCount(background, n))
		}
		f(s)
	}
	switch kind {
	case "permits":
		kit.PermitsWorld(t, n, begin)
	case "semaphore":
		kit.CounterWorld(t, n, begin)
	default:
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			t.Cleanup(func() {
				if kind != "latch" {
					w.Do("DEL", "x")
				}
				time.Sleep(kit.CallsLive)
			})
			begin(t, w)
		})
	}
}

// underFaults runs f with each fault, which hits the next call of a script that is named to once.
func underFaults(t *testing.T, kind string, n int, f func(s *stage, once func(script string))) {
	t.Helper()
	for name, fault := range kit.Faults {
		t.Run(name, func(t *testing.T) {
			on(t, kind, n, func(s *stage) { f(s, func(script string) { kit.Next(s.d, script, fault) }) })
		})
	}
}

// acquire is c's, which has to succeed.
func (s *stage) acquire(n int, options ...holdfast.LockOption) *holdfast.Hold {
	s.T.Helper()
	return kit.Must(s.T)(s.permits.Acquire(background, n, options...))
}

// want checks a number.
func want(t *testing.T, n int) func(got int, err error) {
	t.Helper()
	return func(got int, err error) {
		t.Helper()
		if got != n || err != nil {
			t.Errorf("%d, %v; want %d", got, err, n)
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

// lostWithin waits until a hold is lost, and checks when that was. Unlock says so.
func lostWithin(t *testing.T, h *holdfast.Hold, since time.Time, least, most time.Duration) {
	t.Helper()
	kit.LostAt(t, h, since)
	within(t, since, least, most)
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

// wantLease checks how long a permit is held.
func (s *stage) wantLease(id holdfast.Owner, want time.Duration) {
	s.T.Helper()
	if left, err := kit.LeaseOf(s.theirs, id); left != want || err != nil {
		s.T.Errorf("%v left, %v; want %v", left, err, want)
	}
}

// wantBackend checks that Redis has failed, and may have done it.
func wantBackend(t *testing.T, err error) {
	t.Helper()
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || !failed.MayHaveRun {
		t.Errorf("%v", err)
	}
}

// refusing starts a call that waits, and returns what waits until it has failed.
func refusing(t *testing.T, call func() error, want error) (wait func()) {
	t.Helper()
	gone := kit.Aside(call)
	return func() { kit.WantError(t, <-gone, want) }
}

// fixed are the options of a hold with a lease of that length, if it is to have one.
func fixed(yes bool, lease time.Duration) []holdfast.LockOption {
	if !yes {
		return nil
	}
	return []holdfast.LockOption{holdfast.FixedLease(lease)}
}

// announced returns what checks what was announced on a channel.
func (s *stage) announced(channel string) (want func(payloads ...string)) {
	said := make(chan string, 100)
	listener := s.Server.Driver().Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			said <- e.Payload
		}
	})
	s.T.Cleanup(listener.Close)
	listener.Subscribe(channel)
	synctest.Wait()
	return func(payloads ...string) {
		s.T.Helper()
		synctest.Wait()
		var all []string
		for len(said) > 0 {
			all = append(all, <-said)
		}
		if !slices.Equal(all, payloads) {
			s.T.Errorf("announced %v, want %v", all, payloads)
		}
	}
}

// counting is either semaphore, as far as taking and giving back go.
type counting struct {
	*stage

	name string // "permits" or "semaphore"
}

// forBoth runs f for each semaphore, with n permits.
func forBoth(t *testing.T, n int, f func(k counting)) {
	t.Helper()
	for _, name := range []string{"permits", "semaphore"} {
		t.Run(name, func(t *testing.T) {
			on(t, name, n, func(s *stage) { f(counting{s, name}) })
		})
	}
}

// try acquires, and returns what gives back.
func (k counting) try(ctx context.Context, c *holdfast.Client, n int) (func() error, error) {
	if k.name == "permits" {
		h, err := c.NewPermitSemaphore("x").Acquire(ctx, n)
		return h.Unlock, err
	}
	s := c.NewUnleasedSemaphore("x")
	return func() error { return s.Release(n) }, s.Acquire(ctx, n)
}

// take acquires, which has to succeed.
func (k counting) take(c *holdfast.Client, n int) (back func() error) {
	k.T.Helper()
	back, err := k.try(background, c, n)
	kit.OK(k.T, err)
	return back
}

// turn takes n permits, does what happens inside, and gives them back; in any goroutine.
func (k counting) turn(n int, inside func()) {
	back, err := k.try(background, k.c, n)
	if kit.NoError(k.T, err); err == nil {
		inside()
		kit.NoError(k.T, back())
	}
}

// waits has the other client wait for n permits, which it does not get, until it is sent away.
func (k counting) waits(n int) (away func()) {
	ctx, cancel := context.WithCancel(background)
	gone := refusing(k.T, func() error { return kit.ErrOf(k.try(ctx, k.other, n)) }, context.Canceled)
	time.Sleep(time.Second)
	return func() {
		cancel()
		gone()
	}
}

// stream has so many clients take one permit each for a while, again and again, until the returned function is called. That returns
// when they got in, since the beginning.
func (k counting) stream(clients int, work time.Duration) (stop func() []time.Duration) {
	ctx, cancel := context.WithCancel(background)
	start := time.Now()
	var mu sync.Mutex
	var in []time.Duration
	var wg sync.WaitGroup
	for range clients {
		c, _ := k.Client()
		wg.Go(func() {
			for {
				back, err := k.try(ctx, c, 1)
				if err != nil {
					kit.WantError(k.T, err, context.Canceled)
					return
				}
				mu.Lock()
				in = append(in, time.Since(start))
				mu.Unlock()
				time.Sleep(work)
				kit.NoError(k.T, back())
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
