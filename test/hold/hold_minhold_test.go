package hold

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// keeping runs f for every kind that can keep a lock from others.
func keeping(t *testing.T, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if !k.Shared() {
			kit.FakeKind(t, k, f)
		}
	})
}

const shortest = 10 * time.Second

// freeAt checks when others get the lock, since start.
func freeAt(w *kit.World, c *holdfast.Client, start time.Time, want time.Duration) {
	w.T.Helper()
	next := kit.Must(w.T)(w.Lock(c).Lock(background))
	// One who sleeps asks every three seconds at the latest; polling waiters pause less.
	if took := time.Since(start); took < want || took > want+200*time.Millisecond {
		w.T.Errorf("free after %v, want %v", took, want)
	}
	kit.Unlock(w.T, next)
}

// However soon it is unlocked, others get the lock when the shortest hold is over, and
// not much later; however its messages fare.
func TestMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		for _, held := range []time.Duration{0, 5 * time.Second, 12 * time.Second} {
			start := time.Now()
			h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.MinHold(shortest)))
			time.Sleep(held)
			kit.Unlock(t, h)
			if h.Context().Err() == nil || !h.Deadline().IsZero() {
				t.Error("the hold goes on")
			}
			kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
			again, err := w.Lock(c).TryLock(holdfast.WithOwner(background, h.Owner()))
			if held < shortest {
				kit.WantError(t, err, holdfast.ErrLocked)
			} else {
				kit.Unlock(t, kit.Must(t)(again, err))
			}
			freeAt(w, other, start, max(held, shortest))
		}
		for name, fault := range kit.Faults {
			start := time.Now()
			h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.MinHold(shortest)))
			kit.Once(d, "keep", fault)
			if err := h.Unlock(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			next := kit.Must(t)(w.Lock(other).Lock(background))
			if took := time.Since(start); took < shortest || took > shortest+7*time.Second {
				t.Errorf("%s: free after %v", name, took)
			}
			kit.Unlock(t, next)
		}
	})
}

// A nested hold keeps the lock for its own time, whichever is unlocked last.
func TestMinHoldNested(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		if !w.Kind.Nests {
			return
		}
		c, _ := w.Client()
		other, _ := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		start := time.Now()
		inner := kit.Must(t)(w.Lock(c).Lock(outer.Context(), holdfast.MinHold(shortest)))
		kit.Unlock(t, inner)
		w.WantCount("x", outer.Owner(), 1)
		kit.Unlock(t, outer)
		freeAt(w, other, start, shortest)
	})
}

// Neither closing the client nor a crash ends it sooner; force does.
func TestMinHoldEnds(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		closed, _ := w.Client()
		start := time.Now()
		_ = kit.Must(t)(w.Lock(closed).Lock(background, holdfast.MinHold(shortest)))
		time.Sleep(time.Second)
		kit.OK(t, closed.Close())
		freeAt(w, other, start, shortest)

		crashed, d := w.Client(holdfast.WithLease(3 * time.Second))
		start = time.Now()
		h := kit.Must(t)(w.Lock(crashed).Lock(background, holdfast.MinHold(shortest)))
		kit.Away(d)
		freeAt(w, other, start, shortest)
		kit.WantLost(t, h)
		d.SetFaults(nil)
		_ = h.Unlock()

		c, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(background, holdfast.MinHold(time.Hour))))
		start = time.Now()
		kit.Force(t, w.Lock(other))
		freeAt(w, other, start, 0)
	})
}

// Several locks are kept one by one; a writer who reads on keeps nothing.
func TestMinHoldOfSeveral(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		for _, together := range []bool{true, false} {
			locks := kit.Mutexes(c, "a", "b")
			if !together {
				locks[1] = c.NewMutex("b", holdfast.NonReentrant())
			}
			start := time.Now()
			kit.Unlock(t, kit.Must(t)(holdfast.NewMultiLock(locks...).Lock(background, holdfast.MinHold(shortest))))
			for _, name := range []string{"a", "b"} {
				kit.Fails(t, holdfast.ErrLocked)(other.NewMutex(name).TryLock(background))
			}
			kit.Unlock(t, kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(other, "a", "b")...).Lock(background)))
			kit.Took(t, time.Since(start), shortest, shortest+time.Second, "free after %v")
		}
		m := c.NewRWMutex("x")
		read := kit.Must(t)(m.Downgrade(kit.Must(t)(m.Lock(background, holdfast.MinHold(shortest)))))
		kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(0))))
		kit.Unlock(t, read)
		kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").TryLock(background)))
	})
}

// What cannot be kept is refused, before anything is sent.
func TestMinHoldRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMaxHold(time.Minute))
		seen := kit.Count(d)
		for i, try := range []func() (*holdfast.Hold, error){
			func() (*holdfast.Hold, error) { return c.NewMutex("x").TryLock(background, holdfast.MinHold(0)) },
			func() (*holdfast.Hold, error) {
				return c.NewMutex("x").TryLock(background, holdfast.MinHold(time.Hour))
			},
			func() (*holdfast.Hold, error) {
				return c.NewMutex("x").TryLock(background, holdfast.MinHold(2*time.Second), holdfast.FixedLease(time.Second))
			},
			func() (*holdfast.Hold, error) {
				return c.NewRWMutex("x").TryRLock(background, holdfast.MinHold(time.Second))
			},
			func() (*holdfast.Hold, error) {
				return c.NewPermitSemaphore("x").TryAcquire(background, 1, holdfast.MinHold(time.Second))
			},
		} {
			_, err := try()
			if err == nil {
				t.Error(i)
			}
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// The release of a hold that was kept does not hit the owner's next hold, however long
// it is delayed.
func TestDelayedKeepDoesNotHitTheNextHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		for _, delay := range []time.Duration{time.Millisecond, 2100 * time.Millisecond, 2900 * time.Millisecond} {
			c, d := w.Client()
			ctx := holdfast.WithOwner(background, c.NewOwner())
			h := kit.Must(t)(w.Lock(c).Lock(ctx, holdfast.MinHold(3*time.Second)))
			kit.Once(d, "keep", memdriver.Fault{Repeat: true, RepeatAfter: delay})
			kit.Unlock(t, h)
			h = kit.Must(t)(w.Lock(c).Lock(ctx))
			time.Sleep(time.Minute)
			if err := h.Context().Err(); err != nil {
				t.Error(fmt.Errorf("%v: %w", delay, err))
			}
			kit.Unlock(t, h)
		}
	})
}

// Several locks that are not had are not kept: nobody holds anything more than before.
func TestMinHoldOfSeveralRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		busy := kit.Must(t)(other.NewMutex("b").Lock(background))
		for _, options := range [][]holdfast.MutexOption{nil, {holdfast.NonReentrant()}} {
			m := holdfast.NewMultiLock(c.NewMutex("a", options...), c.NewMutex("b"))
			kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background, holdfast.MinHold(time.Minute)))
			kit.Fails(t, holdfast.ErrLocked)(m.Lock(background, holdfast.MinHold(time.Minute), holdfast.Wait(time.Second)))
			time.Sleep(time.Second) // it is given back in the background
			kit.Unlock(t, kit.Must(t)(other.NewMutex("a").TryLock(background)))
		}
		kit.Unlock(t, busy)
		kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(c.NewMutex("a"), c.NewRWMutex("r").RLocker()).TryLock(background, holdfast.MinHold(time.Minute)))

		s := kit.Several(w, 3)
		for i := range 2 {
			_ = kit.Must(t)(s.Clients[i].NewMutex("x").Lock(holdfast.WithOwner(background, s.Clients[i].NewOwner())))
		}
		r := s.Redlock("x")
		kit.Fails(t, holdfast.ErrLocked)(r.TryLock(background, holdfast.MinHold(time.Minute)))
		time.Sleep(time.Second)
		kit.Unlock(t, kit.Must(t)(s.Clients[2].NewMutex("x").TryLock(background)))
	})
}

// A RedLock is kept on every server, also on one that answers later.
func TestMinHoldOfARedLock(t *testing.T) {
	for name, redlock := range map[string]func(s *kit.Servers) holdfast.Locker{
		"alone":         func(s *kit.Servers) holdfast.Locker { return s.Redlock("x") },
		"in multi-lock": func(s *kit.Servers) holdfast.Locker { return holdfast.NewMultiLock(s.Redlock("x")) },
	} {
		t.Run(name, func(t *testing.T) { minHoldOfARedLock(t, redlock) })
	}
}

func minHoldOfARedLock(t *testing.T, redlock func(s *kit.Servers) holdfast.Locker) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		s.Drivers[2].SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: time.Second} })
		start := time.Now()
		h := kit.Must(t)(redlock(s).Lock(background, holdfast.MinHold(shortest)))
		time.Sleep(1500 * time.Millisecond)
		s.Drivers[2].SetFaults(nil)
		kit.Unlock(t, h)
		for _, c := range s.Clients {
			kit.Fails(t, holdfast.ErrLocked)(c.NewMutex("x").TryLock(background))
		}
		kit.Unlock(t, kit.Must(t)(s.Redlock("x").Lock(background)))
		kit.Took(t, time.Since(start), shortest, shortest+time.Second, "free after %v")
	})
}

// A hold that is kept cannot be handed over before.
func TestMinHoldDetach(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.MinHold(shortest)))
		_, err := h.Detach()
		kit.WantError(t, err, holdfast.ErrInvalid)
		if err := h.Context().Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(shortest)
		owner, err := h.Detach()
		kit.OK(t, err)
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Adopt(background, owner)))
	})
}

// What was kept for a hold that has gone is not kept for an acquire that gave up.
func TestStaleMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		ctx, cancel := context.WithCancel(holdfast.WithOwner(background, c.NewOwner()))
		h := kit.Must(t)(w.Lock(c).Lock(ctx, holdfast.MinHold(time.Hour)))
		kit.Once(d, "keep", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		go kit.Unlock(t, h)
		time.Sleep(100 * time.Millisecond)
		failed := make(chan error)
		go func() { // it comes while the release is under way
			_, err := w.Lock(c).Lock(ctx)
			failed <- err
		}()
		time.Sleep(time.Second)
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" {
				return memdriver.Fault{DelayReply: time.Second}
			}
			return memdriver.Fault{}
		})
		w.Do("DEL", "x") // who waits is not told, and asks within a second
		for w.PTTL("x") <= 0 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		kit.WantError(t, <-failed, context.Canceled)
		time.Sleep(10 * time.Second)
		d.SetFaults(nil)
		kit.Unlock(t, kit.Must(t)(w.Lock(other).Lock(background, holdfast.Wait(time.Second))))
	})
}

// A nested hold is not promised more than WithMaxHold leaves.
func TestMinHoldWithinMaxHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *kit.World) {
		if !w.Kind.Nests {
			return
		}
		c, _ := w.Client(holdfast.WithMaxHold(time.Minute))
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		time.Sleep(50 * time.Second)
		kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).Lock(outer.Context(), holdfast.MinHold(40*time.Second)))
		kit.Unlock(t, outer)
	})
}

// The next in a fair line is told until when the lock is kept, as others are.
func TestMinHoldOfAFairLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		start := time.Now()
		h := kit.Must(t)(c.NewFairMutex("x").Lock(background, holdfast.MinHold(shortest)))
		next := make(chan *holdfast.Hold)
		go func() { next <- kit.Must(t)(other.NewFairMutex("x").Lock(background)) }()
		time.Sleep(9500 * time.Millisecond)
		kit.Unlock(t, h)
		kit.Unlock(t, <-next)
		kit.Took(t, time.Since(start), shortest, shortest+200*time.Millisecond, "free after %v")
	})
}

// What cannot be kept is refused as one of several locks, too, whatever is around it.
func TestMinHoldOfWhatCannotBeKept(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMaxHold(time.Hour))
		seen := kit.Count(d)
		s := c.NewPermitSemaphore("p")
		kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(s, c.NewMutex("a")).Lock(background, holdfast.MinHold(shortest)))
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
		for _, l := range []holdfast.Locker{struct{ holdfast.Locker }{c.NewRWMutex("r").RLocker()}, struct{ holdfast.Locker }{s}} {
			kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(c.NewMutex("a"), l).Lock(background, holdfast.MinHold(shortest)))
		}
		short, _ := w.Client(holdfast.WithMaxHold(time.Second))
		kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(struct{ holdfast.Locker }{short.NewMutex("b")}, c.NewMutex("a")).Lock(background, holdfast.MinHold(shortest)))
		time.Sleep(time.Second)
		kit.Unlock(t, kit.Must(t)(c.NewMutex("a").TryLock(background)))

		nested, _ := w.Client(holdfast.WithMaxHold(time.Minute))
		outer := kit.Must(t)(nested.NewMutex("a").Lock(background))
		time.Sleep(50 * time.Second)
		kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(kit.Mutexes(nested, "a", "b")...).Lock(outer.Context(), holdfast.MinHold(40*time.Second)))
		kit.Unlock(t, outer)
	})
}
