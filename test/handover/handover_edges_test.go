package handover

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Several locks that are to be nested in a hold, and wait for another one while it is unlocked: it
// is released, or they would be nested in the next one's.
func TestSeveralNestedInOneThatIsUnlocked(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		x, y := c.NewMutex("x"), c.NewMutex("a")
		blocker := kit.Must(t)(other.NewMutex("a").Lock(background))
		a := kit.Must(t)(x.Lock(background))
		both := kit.Waiting(t, holdfast.NewMultiLock(y, x), context.WithoutCancel(a.Context()))
		next := kit.Waiting(t, x, background)
		kit.Unlock(t, a)
		b := <-next
		kit.Unlock(t, blocker)
		time.Sleep(5 * time.Second)
		kit.Nothing(t, both, "two are inside")
		kit.Unlock(t, b)
		kit.Unlock(t, <-both)
	})
}

// The owner of a part, of a hold whose parts have several.
func TestOwnerFromPart(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var all []holdfast.Locker
		for _, name := range []string{"x", "y", "z"} {
			c, _ := w.Client()
			all = append(all, c.NewMutex(name))
		}
		h := kit.Must(t)(holdfast.NewRedLock(all...).Lock(background))
		owner, ok := holdfast.OwnerFrom(h.Context(), all[0])
		var want holdfast.Owner // two of three may have been enough
		for _, part := range h.Parts() {
			if part.Name() == "x" {
				want = part.Owner()
			}
		}
		if !want.IsZero() && (owner != want || !ok) {
			t.Errorf("%v, %v, and its part has %v", owner, ok, want)
		}
		kit.Unlock(t, h)
	})
}

// Who has left, or lost, what is shared hears so from Detach, at once.
func TestLeftAndDetached(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a, b := kit.Must(t)(x.RLock(background)), kit.Must(t)(x.RLock(background))
		kit.Unlock(t, a)
		start := time.Now()
		_, err := a.Detach()
		kit.WantError(t, err, holdfast.ErrNotHeld)
		if _, err := x.RLocker().ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		<-b.Context().Done()
		_, err = b.Detach()
		kit.WantError(t, err, holdfast.ErrLost)
		// To wait for others, or for Redis, would take as long as the timeout of 3 s.
		kit.Took(t, time.Since(start), 0, time.Second, "after %v")
	})
}

// Nobody joins a read hold whose owner is known: who knows it would be taken for one who reads.
func TestKnownIsNotShared(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a := kit.Must(t)(x.RLock(background))
		mine := a.Owner()
		b := kit.Must(t)(x.RLock(background))
		kit.Unlock(t, a)
		if state, err := x.Inspect(background); err != nil || state.HeldBy(mine) || !state.Locked() {
			t.Errorf("%+v, %v", state, err)
		}
		kit.Unlock(t, b)
	})
}

// A key that is deleted by hand under the last of a cohort is somebody's again after a few
// seconds, as if nothing had been handed over, however long the lease.
func TestDeletedWhileHandedOver(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithLease(10 * time.Minute))
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next, third := kit.Waiting(t, x, background), kit.Waiting(t, x, background)
		kit.Unlock(t, a)
		b := <-next
		w.Do("DEL", "x")
		start := time.Now()
		h := <-third
		// The queue asks when the hold has lasted for a second, and every three seconds.
		kit.Took(t, time.Since(start), 0, 5*time.Second, "after %v")
		kit.Unlock(t, h)
		synctest.Wait()
		kit.WantError(t, b.Unlock(), holdfast.ErrLost)
	})
}

// Readers who never stop, and share, leave a writer of another process its turn.
func TestReadersWhoShareLeaveGaps(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		ctx, cancel := context.WithCancel(background)
		ended := make(chan struct{})
		const readers = 16
		for i := range readers {
			go func() {
				defer func() { ended <- struct{}{} }()
				time.Sleep(time.Duration(i) * 50 * time.Microsecond)
				for ctx.Err() == nil {
					if h, err := c.NewRWMutex("x").RLock(ctx); err == nil {
						time.Sleep(200 * time.Microsecond)
						kit.Unlock(t, h)
					}
				}
			}()
		}
		for range 50 {
			start := time.Now()
			h := kit.Must(t)(other.NewRWMutex("x").Lock(background))
			// Without gaps it waits for ever. With them it may lose some: each generation of
			// readers lasts for a slice and a hold, 1.2 ms, and up to 2 ms more.
			kit.Took(t, time.Since(start), 0, 100*time.Millisecond, "a writer has waited for %v")
			kit.Unlock(t, h)
			time.Sleep(time.Millisecond)
		}
		cancel()
		for range readers {
			<-ended
		}
	})
}

// Who has little time does not spend it on waiting for another reader to leave.
func TestReaderInAHurry(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a := kit.Must(t)(x.RLock(background))
		time.Sleep(5 * time.Millisecond) // too late to join
		kit.Unlock(t, kit.Must(t)(x.RLock(background, holdfast.Wait(time.Millisecond))))
		kit.Unlock(t, a)
		a = kit.Must(t)(x.RLock(background))
		time.Sleep(5 * time.Millisecond)
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		kit.Unlock(t, kit.Must(t)(x.RLock(ctx)))
		kit.Unlock(t, a)
	})
}

// behindCohort returns a hold that was acquired while others waited, and nobody was refused.
func behindCohort(t *testing.T, d *memdriver.Driver, first func() *holdfast.Hold, others ...func()) *holdfast.Hold {
	t.Helper()
	slow(d, "acquire", time.Millisecond)
	got := make(chan *holdfast.Hold, 1)
	go func() { got <- first() }()
	synctest.Wait()
	for _, other := range others {
		go other()
		synctest.Wait()
	}
	h := <-got
	d.SetFaults(nil)
	return h
}

// Whose time ends while it lets other processes try first hears that the lock was held, and not
// that Redis is silent.
func TestWaitOverBeforeItIsAsked(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		elsewhere, _ := w.Client()
		x := c.NewMutex("x")
		refused := make(chan error, 1)
		a := behindCohort(t, d, func() *holdfast.Hold { return kit.Must(t)(x.Lock(background)) }, func() {
			h, err := x.Lock(background, holdfast.Wait(30*time.Millisecond))
			if err == nil {
				kit.Unlock(t, h)
			}
			refused <- err
		})
		other := kit.Waiting(t, elsewhere.NewMutex("x"), background)
		time.Sleep(25 * time.Millisecond) // longer than a slice
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: 2 * time.Millisecond} })
		kit.Unlock(t, a)
		kit.WantError(t, <-refused, holdfast.ErrLocked)
		d.SetFaults(nil)
		kit.Unlock(t, <-other)
	})
}

// One who has waited for a hold of its own process bears an outage as all do who have waited.
func TestOutageBehindHandOver(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		errs := make(chan error, 1)
		a := behindCohort(t, d, func() *holdfast.Hold { return kit.Must(t)(x.Lock(background)) }, func() {
			h, err := x.Lock(background)
			if err == nil {
				err = h.Unlock()
			}
			errs <- err
		})
		time.Sleep(25 * time.Millisecond) // longer than a slice
		kit.Unlock(t, a)
		kit.Away(d)
		time.Sleep(8 * time.Second)
		d.SetFaults(nil)
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

// Who has left others reading has no owner any more, whatever one of them has done with the hold.
func TestLeftBesideExtended(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var handed []bool
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnRelease: func(_ context.Context, e holdfast.Event) { handed = append(handed, e.HandedOver) }}))
		x := c.NewRWMutex("x")
		a, b := kit.Must(t)(x.RLock(background)), kit.Must(t)(x.RLock(background))
		kit.OK(t, a.Extend(background, time.Minute))
		calls := kit.Count(d)
		kit.Unlock(t, b)
		if owner := b.Owner(); !owner.IsZero() || calls.All() > 0 || !handed[0] {
			t.Errorf("it has %v, after %d calls; handed over: %v", owner, calls.All(), handed)
		}
		kit.Unlock(t, a)
		if handed[1] {
			t.Error("the last one has left it to nobody")
		}
	})
}

// A reader that comes without waiting lets those in who wait, and keeps none of them out.
func TestTryRLockLetsIn(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		elsewhere, _ := w.Client()
		x := c.NewRWMutex("x")
		writer := kit.Must(t)(elsewhere.NewRWMutex("x").Lock(background))
		fixed := kit.Waiting(t, x.RLocker(), background, holdfast.FixedLease(time.Minute))
		plain := kit.Waiting(t, x.RLocker(), background)
		time.Sleep(100 * time.Millisecond)
		d.LoseMessages(true) // or the first one asks before it
		kit.Unlock(t, writer)
		comes := kit.Must(t)(x.TryRLock(background))
		start := time.Now()
		d.LoseMessages(false)
		for _, h := range []*holdfast.Hold{<-fixed, <-plain} {
			kit.Unlock(t, h)
		}
		kit.Took(t, time.Since(start), 0, 10*time.Millisecond, "they have waited for %v beside one who reads")
		kit.Unlock(t, comes)
	})
}

// An Unlock at the deadline says that the hold is lost, though others have holds of the same
// owner, and the watchdog has not looked yet. Which of two timers comes first is chance.
func TestLeftAtTheDeadline(t *testing.T) {
	for name, test := range map[string]func(c *holdfast.Client) (l holdfast.Locker, nested bool){
		"shared": func(c *holdfast.Client) (holdfast.Locker, bool) { return c.NewRWMutex("x").RLocker(), false },
		"nested": func(c *holdfast.Client) (holdfast.Locker, bool) { return c.NewMutex("x"), true },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client(holdfast.WithLease(time.Second))
				l, nested := test(c)
				for range 20 {
					a, ctx := kit.Must(t)(l.Lock(background)), background
					if nested {
						ctx = a.Context()
					}
					b := kit.Must(t)(l.Lock(ctx))
					kit.Away(d)
					time.Sleep(time.Until(b.Deadline()))
					kit.WantError(t, b.Unlock(), holdfast.ErrLost)
					kit.WantError(t, context.Cause(b.Context()), holdfast.ErrLost)
					d.SetFaults(nil)
					time.Sleep(20 * time.Second)
					kit.WantError(t, a.Unlock(), holdfast.ErrLost)
				}
			})
		})
	}
}

// While nobody else listens a cohort lasts for twenty milliseconds, not for one: Redis is asked less.
func TestHandOverAlone(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		calls := kit.Count(d)
		ctx, cancel := context.WithTimeout(background, 400*time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					if h, err := c.NewMutex("x").Lock(ctx); err == nil {
						time.Sleep(50 * time.Microsecond)
						kit.Unlock(t, h)
					}
				}
			})
		}
		all.Wait()
		// A cohort and what comes between two take some 20.1 ms.
		if n := calls.Of("acquire"); n < 18 || n > 30 {
			t.Errorf("Redis was asked %d times in 400 ms", n)
		}
	})
}

// Redis has released the lock and its answer is lost: those who wait here do not wait for its repetition.
func TestHandOverEndsUnanswered(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next, third := kit.Waiting(t, x, background), kit.Waiting(t, x, background)
		kit.Unlock(t, a)
		b := <-next
		time.Sleep(100 * time.Millisecond) // its cohort is over
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseReply: call.Script.Name() == "release"}
		})
		start := time.Now()
		go kit.Unlock(t, b)
		h := <-third
		// They are silent for 250 ms. The release is repeated after a second.
		kit.Took(t, time.Since(start), 0, 300*time.Millisecond, "after %v")
		d.SetFaults(nil)
		kit.Unlock(t, h)
	})
}

// One that is handed the lock, and comes to look when the lease is over, hears that it was lost.
// Which of two timers comes first is chance.
func TestHandedOverAtTheDeadline(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithLease(time.Second))
		for range 20 {
			a := kit.Must(t)(c.NewMutex("x").Lock(background))
			deadline := a.Deadline()
			result := make(chan error, 1)
			go func() {
				_, err := c.NewMutex("x").Lock(background, holdfast.WithHooks(holdfast.Hooks{
					OnWait: func(context.Context, holdfast.Event) { time.Sleep(time.Until(deadline)) },
				}))
				result <- err
			}()
			synctest.Wait()
			kit.Unlock(t, a)
			kit.Away(d)
			kit.WantError(t, <-result, holdfast.ErrLost)
			d.SetFaults(nil)
			time.Sleep(20 * time.Second)
		}
	})
}
