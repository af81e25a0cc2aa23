package handover

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// meanwhile is a context that does something once, when it is first asked whether it has ended:
// after a Lock under it has found whose it is.
type meanwhile struct {
	context.Context

	f func()
}

func (m *meanwhile) Err() error {
	if f := m.f; f != nil {
		m.f = nil
		f()
	}
	return m.Context.Err()
}

// slow delays the requests of one script, and counts those of the others.
func slow(d *memdriver.Driver, script string, by time.Duration) (others func() int) {
	n := make(chan int, 1)
	n <- 0
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		if call.Script.Name() == script {
			return memdriver.Fault{DelayRequest: by}
		}
		n <- <-n + 1
		return memdriver.Fault{}
	})
	return func() int {
		sum := <-n
		n <- sum
		return sum
	}
}

// A nested Lock that has found its hold, and comes after that was handed over, is not nested in the next one.
func TestHandedOverUnderNestedLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next := kit.Waiting(t, x, background)
		ctx := &meanwhile{context.WithoutCancel(a.Context()), func() { kit.Unlock(t, a) }}
		if h, err := x.TryLock(ctx); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("nested in what was handed over: %v, %v", h, err)
		}
		b := <-next
		w.WantCount("x", b.Owner(), 1)
		kit.Unlock(t, b)
	})
}

// While a waiter's own try is under way nothing is handed over to it: the try could be granted, too.
func TestNotHandedOverDuringTry(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.TryLock(background))
		released := slow(d, "acquire", 500*time.Microsecond)
		next := kit.Waiting(t, x, background)
		kit.Unlock(t, a)
		if released() == 0 {
			t.Error("it was handed over to one whose try is under way")
		}
		d.SetFaults(nil)
		kit.Unlock(t, <-next)
		time.Sleep(time.Second)
		kit.Unlock(t, kit.Must(t)(x.TryLock(background)))
	})
}

// A hold is not handed over if a try for it was not answered: that may still take effect.
func TestNotHandedOverAfterLostReply(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		lost := false
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			lose := !lost && call.Script.Name() == "acquire"
			lost = lost || lose
			return memdriver.Fault{LoseRequest: lose}
		})
		first := kit.Waiting(t, x, background)
		next := kit.Waiting(t, x, background)
		a := <-first // by the second try
		calls := kit.Count(d)
		kit.Unlock(t, a)
		if calls.Of("release") == 0 {
			t.Error("it was handed over")
		}
		kit.Unlock(t, <-next)
	})
}

// One who waits, and has not heard yet that the client shuts down, is not handed the lock.
func TestNotHandedOverDuringShutdown(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		waits, goOn := make(chan struct{}), make(chan struct{})
		got := make(chan error, 1)
		go func() {
			h, err := x.Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) {
				close(waits)
				<-goOn
			}}))
			if err == nil {
				kit.Unlock(t, h)
			}
			got <- err
		}()
		<-waits
		down := kit.BeginShutdown(c)
		synctest.Wait()
		kit.Unlock(t, a)
		close(goOn)
		kit.WantError(t, <-got, holdfast.ErrClosed)
		kit.OK(t, <-down)
	})
}

// While a nested Lock is under way nothing is handed over: it would be nested in the next one's hold.
func TestNotHandedOverDuringNestedLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next := kit.Waiting(t, x, background)
		slow(d, "acquire", 500*time.Microsecond)
		nested := kit.Waiting(t, x, context.WithoutCancel(a.Context()))
		go kit.Unlock(t, a)
		synctest.Wait()
		kit.Nothing(t, next, "it was handed over")
		d.SetFaults(nil)
		kit.Unlock(t, <-nested)
		kit.Unlock(t, <-next)
	})
}

// One who waits with a lease of its own is not let in by another reader, and one who comes does not join.
func TestReadersOfOtherLeasesDoNotShare(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		writer := kit.Must(t)(x.Lock(background))
		first := kit.Waiting(t, x.RLocker(), background)
		longer := kit.Waiting(t, x.RLocker(), background, holdfast.RenewedLease(time.Minute))
		time.Sleep(time.Second)
		kit.Unlock(t, writer)
		released := time.Now()
		a, b := <-first, <-longer
		if took := time.Since(released); took > 10*time.Millisecond { // a round trip costs nothing here
			t.Errorf("the other lease has waited for %v beside one who reads", took)
		}
		late := kit.Must(t)(x.TryRLock(background, holdfast.RenewedLease(2*time.Minute)))
		if time.Until(b.Deadline()) < 55*time.Second || time.Until(late.Deadline()) < 110*time.Second {
			t.Errorf("to be trusted for %v and %v", time.Until(b.Deadline()), time.Until(late.Deadline()))
		}
		if a.Owner() == b.Owner() || b.Owner() == late.Owner() {
			t.Error("they share")
		}
		kit.Unlock(t, a)
		kit.Unlock(t, b)
		kit.Unlock(t, late)
	})
}

// One who comes within the slice does not join a hold with another lease, or one of whose lease too
// little is left.
func TestComesAndDoesNotShare(t *testing.T) {
	for name, test := range map[string]struct {
		lease   time.Duration // of both
		options []holdfast.LockOption
		joins   bool
	}{
		"the same":    {lease: 30 * time.Second, joins: true},
		"other lease": {lease: 30 * time.Second, options: []holdfast.LockOption{holdfast.RenewedLease(25 * time.Second)}},
		"short lease": {lease: 10 * time.Millisecond}, // 1 % and 2 ms are off, and 0.9 ms have passed
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client(holdfast.WithLease(test.lease))
				x := c.NewRWMutex("x")
				a := kit.Must(t)(x.RLock(background))
				time.Sleep(900 * time.Microsecond)
				b := kit.Must(t)(x.RLock(background, test.options...))
				if joined := a.Owner() == b.Owner(); joined != test.joins {
					t.Errorf("it has joined: %v", joined)
				}
				kit.Unlock(t, a)
				kit.Unlock(t, b)
			})
		})
	}
}

// A hold that is shared, and in which another is nested, is not joined any more; all is given back once.
func TestNestedIsNotShared(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a, b := kit.Must(t)(x.RLock(background)), kit.Must(t)(x.RLock(background))
		inner := kit.Must(t)(x.RLock(a.Context()))
		late := kit.Must(t)(x.TryRLock(background))
		if late.Owner() == b.Owner() {
			t.Error("one has joined what is nested")
		}
		kit.Unlock(t, inner)
		later := kit.Must(t)(x.TryRLock(background))
		if later.Owner() == b.Owner() {
			t.Error("one has joined what was nested")
		}
		for _, h := range []*holdfast.Hold{a, late, later} {
			kit.Unlock(t, h)
		}
		isLast(t, x, b)
	})
}

// What is detached is joined by nobody while its holder waits for the others to leave.
func TestDetachedIsNotShared(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a, b := kit.Must(t)(x.RLock(background)), kit.Must(t)(x.RLock(background))
		detached := make(chan holdfast.Owner, 1)
		go func() {
			owner, err := a.Detach()
			if err != nil {
				t.Error(err)
			}
			detached <- owner
		}()
		synctest.Wait()
		late := kit.Must(t)(x.TryRLock(background))
		kit.Unlock(t, b)
		owner := <-detached
		if late.Owner() == owner {
			t.Error("one has joined what is being detached")
		}
		kit.Unlock(t, late)
		kit.Unlock(t, kit.Must(t)(x.RLocker().Adopt(background, owner)))
	})
}

// While the client shuts down nobody joins, and nothing is handed over.
func TestShutdownEndsSharing(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		rw, x := c.NewRWMutex("rw"), c.NewMutex("x")
		r, a := kit.Must(t)(rw.RLock(background)), kit.Must(t)(x.Lock(background))
		next := kit.Waiting(t, x, background)
		down := kit.BeginShutdown(c)
		synctest.Wait()
		if h, err := rw.TryRLock(background); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a reader while the client shuts down: %v, %v", h, err)
		}
		kit.Unlock(t, a)
		if h := <-next; h != nil {
			t.Error("a waiter has got it while the client shuts down")
		}
		kit.Unlock(t, r)
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}
