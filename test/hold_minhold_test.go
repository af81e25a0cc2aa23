package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// keeping runs f for every kind that can keep a lock from others.
func keeping(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	forKinds(t, func(t *testing.T, k *kind) {
		if !k.shared() {
			fakeKind(t, k, f)
		}
	})
}

const shortest = 10 * time.Second

// freeAt checks when others get the lock, since start.
func (w *world) freeAt(c *holdfast.Client, start time.Time, want time.Duration) {
	w.t.Helper()
	next := must(w.t)(w.lock(c).Lock(background))
	// One who sleeps asks every three seconds at the latest; polling waiters pause less.
	if took := time.Since(start); took < want || took > want+200*time.Millisecond {
		w.t.Errorf("free after %v, want %v", took, want)
	}
	unlock(w.t, next)
}

// However soon it is unlocked, others get the lock when the shortest hold is over, and
// not much later; however its messages fare.
func TestMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		for _, held := range []time.Duration{0, 5 * time.Second, 12 * time.Second} {
			start := time.Now()
			h := must(t)(w.lock(c).Lock(background, holdfast.MinHold(shortest)))
			time.Sleep(held)
			unlock(t, h)
			if h.Context().Err() == nil || !h.Deadline().IsZero() {
				t.Error("the hold goes on")
			}
			wantError(t, h.Unlock(), holdfast.ErrNotHeld)
			again, err := w.lock(c).TryLock(holdfast.WithOwner(background, h.Owner()))
			if held < shortest {
				wantError(t, err, holdfast.ErrLocked)
			} else {
				unlock(t, must(t)(again, err))
			}
			w.freeAt(other, start, max(held, shortest))
		}
		for name, fault := range faults {
			start := time.Now()
			h := must(t)(w.lock(c).Lock(background, holdfast.MinHold(shortest)))
			once(d, "keep", fault)
			if err := h.Unlock(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			next := must(t)(w.lock(other).Lock(background))
			if took := time.Since(start); took < shortest || took > shortest+7*time.Second {
				t.Errorf("%s: free after %v", name, took)
			}
			unlock(t, next)
		}
	})
}

// A nested hold keeps the lock for its own time, whichever is unlocked last.
func TestMinHoldNested(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		if !w.kind.nests {
			return
		}
		c, _ := w.client()
		other, _ := w.client()
		outer := must(t)(w.lock(c).Lock(background))
		start := time.Now()
		inner := must(t)(w.lock(c).Lock(outer.Context(), holdfast.MinHold(shortest)))
		unlock(t, inner)
		w.wantCount("x", outer.Owner(), 1)
		unlock(t, outer)
		w.freeAt(other, start, shortest)
	})
}

// Neither closing the client nor a crash ends it sooner; force does.
func TestMinHoldEnds(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		other, _ := w.client()
		closed, _ := w.client()
		start := time.Now()
		_ = must(t)(w.lock(closed).Lock(background, holdfast.MinHold(shortest)))
		time.Sleep(time.Second)
		ok(t, closed.Close())
		w.freeAt(other, start, shortest)

		crashed, d := w.client(holdfast.WithLease(3 * time.Second))
		start = time.Now()
		h := must(t)(w.lock(crashed).Lock(background, holdfast.MinHold(shortest)))
		away(d)
		w.freeAt(other, start, shortest)
		wantLost(t, h)
		d.SetFaults(nil)
		_ = h.Unlock()

		c, _ := w.client()
		unlock(t, must(t)(w.lock(c).Lock(background, holdfast.MinHold(time.Hour))))
		start = time.Now()
		if did, err := w.lock(other).ForceUnlock(background); !did || err != nil {
			t.Error(did, err)
		}
		w.freeAt(other, start, 0)
	})
}

// Several locks are kept one by one; a writer who reads on keeps nothing.
func TestMinHoldOfSeveral(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		for _, together := range []bool{true, false} {
			locks := mutexes(c, "a", "b")
			if !together {
				locks[1] = c.NewMutex("b", holdfast.NonReentrant())
			}
			start := time.Now()
			unlock(t, must(t)(holdfast.NewMultiLock(locks...).Lock(background, holdfast.MinHold(shortest))))
			for _, name := range []string{"a", "b"} {
				_, err := other.NewMutex(name).TryLock(background)
				wantError(t, err, holdfast.ErrLocked)
			}
			unlock(t, must(t)(holdfast.NewMultiLock(mutexes(other, "a", "b")...).Lock(background)))
			if took := time.Since(start); took < shortest || took > shortest+time.Second {
				t.Errorf("free after %v", took)
			}
		}
		m := c.NewRWMutex("x")
		read := must(t)(m.Downgrade(must(t)(m.Lock(background, holdfast.MinHold(shortest)))))
		unlock(t, must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(0))))
		unlock(t, read)
		unlock(t, must(t)(other.NewRWMutex("x").TryLock(background)))
	})
}

// What cannot be kept is refused, before anything is sent.
func TestMinHoldRefused(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithMaxHold(time.Minute))
		seen := count(d)
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
			wantError(t, err, holdfast.ErrInvalid)
		}
		if n := seen.all(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// The release of a hold that was kept does not hit the owner's next hold, however long
// it is delayed.
func TestDelayedKeepDoesNotHitTheNextHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		for _, delay := range []time.Duration{time.Millisecond, 2100 * time.Millisecond, 2900 * time.Millisecond} {
			c, d := w.client()
			ctx := holdfast.WithOwner(background, c.NewOwner())
			h := must(t)(w.lock(c).Lock(ctx, holdfast.MinHold(3*time.Second)))
			once(d, "keep", memdriver.Fault{Repeat: true, RepeatAfter: delay})
			unlock(t, h)
			h = must(t)(w.lock(c).Lock(ctx))
			time.Sleep(time.Minute)
			if err := h.Context().Err(); err != nil {
				t.Error(fmt.Errorf("%v: %w", delay, err))
			}
			unlock(t, h)
		}
	})
}

// Several locks that are not had are not kept: nobody holds anything more than before.
func TestMinHoldOfSeveralRefused(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		busy := must(t)(other.NewMutex("b").Lock(background))
		for _, options := range [][]holdfast.MutexOption{nil, {holdfast.NonReentrant()}} {
			m := holdfast.NewMultiLock(c.NewMutex("a", options...), c.NewMutex("b"))
			_, err := m.TryLock(background, holdfast.MinHold(time.Minute))
			wantError(t, err, holdfast.ErrLocked)
			_, err = m.Lock(background, holdfast.MinHold(time.Minute), holdfast.Wait(time.Second))
			wantError(t, err, holdfast.ErrLocked)
			time.Sleep(time.Second) // it is given back in the background
			unlock(t, must(t)(other.NewMutex("a").TryLock(background)))
		}
		unlock(t, busy)
		_, err := holdfast.NewMultiLock(c.NewMutex("a"), c.NewRWMutex("r").RLocker()).TryLock(background, holdfast.MinHold(time.Minute))
		wantError(t, err, holdfast.ErrInvalid)

		s := several(w, 3)
		for i := range 2 {
			_ = must(t)(s.clients[i].NewMutex("x").Lock(holdfast.WithOwner(background, s.clients[i].NewOwner())))
		}
		r := s.redlock("x")
		_, err = r.TryLock(background, holdfast.MinHold(time.Minute))
		wantError(t, err, holdfast.ErrLocked)
		time.Sleep(time.Second)
		unlock(t, must(t)(s.clients[2].NewMutex("x").TryLock(background)))
	})
}

// A RedLock is kept on every server, also on one that answers later.
func TestMinHoldOfARedLock(t *testing.T) {
	for name, redlock := range map[string]func(s *servers) holdfast.Locker{
		"alone":         func(s *servers) holdfast.Locker { return s.redlock("x") },
		"in multi-lock": func(s *servers) holdfast.Locker { return holdfast.NewMultiLock(s.redlock("x")) },
	} {
		t.Run(name, func(t *testing.T) { minHoldOfARedLock(t, redlock) })
	}
}

func minHoldOfARedLock(t *testing.T, redlock func(s *servers) holdfast.Locker) {
	t.Helper()
	fake(t, func(t *testing.T, w *world) {
		s := several(w, 3)
		s.drivers[2].SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: time.Second} })
		start := time.Now()
		h := must(t)(redlock(s).Lock(background, holdfast.MinHold(shortest)))
		time.Sleep(1500 * time.Millisecond)
		s.drivers[2].SetFaults(nil)
		unlock(t, h)
		for _, c := range s.clients {
			_, err := c.NewMutex("x").TryLock(background)
			wantError(t, err, holdfast.ErrLocked)
		}
		unlock(t, must(t)(s.redlock("x").Lock(background)))
		if took := time.Since(start); took < shortest || took > shortest+time.Second {
			t.Errorf("free after %v", took)
		}
	})
}

// A hold that is kept cannot be handed over before.
func TestMinHoldDetach(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := must(t)(c.NewMutex("x").Lock(background, holdfast.MinHold(shortest)))
		_, err := h.Detach()
		wantError(t, err, holdfast.ErrInvalid)
		if err := h.Context().Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(shortest)
		owner, err := h.Detach()
		ok(t, err)
		unlock(t, must(t)(c.NewMutex("x").Adopt(background, owner)))
	})
}

// What was kept for a hold that has gone is not kept for an acquire that gave up.
func TestStaleMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		ctx, cancel := context.WithCancel(holdfast.WithOwner(background, c.NewOwner()))
		h := must(t)(w.lock(c).Lock(ctx, holdfast.MinHold(time.Hour)))
		once(d, "keep", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		go unlock(t, h)
		time.Sleep(100 * time.Millisecond)
		failed := make(chan error)
		go func() { // it comes while the release is under way
			_, err := w.lock(c).Lock(ctx)
			failed <- err
		}()
		time.Sleep(time.Second)
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" {
				return memdriver.Fault{DelayReply: time.Second}
			}
			return memdriver.Fault{}
		})
		w.do("DEL", "x") // who waits is not told, and asks within a second
		for w.pttl("x") <= 0 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		wantError(t, <-failed, context.Canceled)
		time.Sleep(10 * time.Second)
		d.SetFaults(nil)
		unlock(t, must(t)(w.lock(other).Lock(background, holdfast.Wait(time.Second))))
	})
}

// A nested hold is not promised more than WithMaxHold leaves.
func TestMinHoldWithinMaxHold(t *testing.T) {
	keeping(t, func(t *testing.T, w *world) {
		if !w.kind.nests {
			return
		}
		c, _ := w.client(holdfast.WithMaxHold(time.Minute))
		outer := must(t)(w.lock(c).Lock(background))
		time.Sleep(50 * time.Second)
		_, err := w.lock(c).Lock(outer.Context(), holdfast.MinHold(40*time.Second))
		wantError(t, err, holdfast.ErrInvalid)
		unlock(t, outer)
	})
}

// The next in a fair line is told until when the lock is kept, as others are.
func TestMinHoldOfAFairLock(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		start := time.Now()
		h := must(t)(c.NewFairMutex("x").Lock(background, holdfast.MinHold(shortest)))
		next := make(chan *holdfast.Hold)
		go func() { next <- must(t)(other.NewFairMutex("x").Lock(background)) }()
		time.Sleep(9500 * time.Millisecond)
		unlock(t, h)
		unlock(t, <-next)
		if took := time.Since(start); took < shortest || took > shortest+200*time.Millisecond {
			t.Errorf("free after %v", took)
		}
	})
}

// What cannot be kept is refused as one of several locks, too, whatever is around it.
func TestMinHoldOfWhatCannotBeKept(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithMaxHold(time.Hour))
		seen := count(d)
		s := c.NewPermitSemaphore("p")
		_, err := holdfast.NewMultiLock(s, c.NewMutex("a")).Lock(background, holdfast.MinHold(shortest))
		wantError(t, err, holdfast.ErrInvalid)
		if n := seen.all(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
		for _, l := range []holdfast.Locker{struct{ holdfast.Locker }{c.NewRWMutex("r").RLocker()}, struct{ holdfast.Locker }{s}} {
			_, err := holdfast.NewMultiLock(c.NewMutex("a"), l).Lock(background, holdfast.MinHold(shortest))
			wantError(t, err, holdfast.ErrInvalid)
		}
		short, _ := w.client(holdfast.WithMaxHold(time.Second))
		_, err = holdfast.NewMultiLock(struct{ holdfast.Locker }{short.NewMutex("b")}, c.NewMutex("a")).Lock(background, holdfast.MinHold(shortest))
		wantError(t, err, holdfast.ErrInvalid)
		time.Sleep(time.Second)
		unlock(t, must(t)(c.NewMutex("a").TryLock(background)))

		nested, _ := w.client(holdfast.WithMaxHold(time.Minute))
		outer := must(t)(nested.NewMutex("a").Lock(background))
		time.Sleep(50 * time.Second)
		_, err = holdfast.NewMultiLock(mutexes(nested, "a", "b")...).Lock(outer.Context(), holdfast.MinHold(40*time.Second))
		wantError(t, err, holdfast.ErrInvalid)
		unlock(t, outer)
	})
}
