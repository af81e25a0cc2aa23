package handover

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A hold that is given back is the next one's at once, under the same owner, without a call but the one that takes the waiter out
// of the line.
func TestHandOver(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next, third := s.waits(), s.waits()
		calls := kit.Count(s.d)
		ctx, deadline := a.Context(), a.Deadline()
		text := fmt.Sprint(a) // does not keep it from passing on
		s.Unlock(a)
		b := <-next
		if b == nil || calls.All() > calls.Of("leave") || context.Cause(ctx) == nil || b.Context().Err() != nil {
			s.Fatalf("after %d calls: %v, %v", calls.All(), b, context.Cause(ctx))
		}
		if until := b.Deadline(); !until.Equal(deadline) {
			s.Errorf("to be trusted until %v, and before until %v", until, deadline)
		}
		kit.Nothing(s.T, third, "two have it")

		// The former holder's is nobody's.
		kit.WantError(s.T, a.Unlock(), holdfast.ErrNotHeld)
		if a.Owner() != (holdfast.Owner{}) {
			s.Errorf("the former holder has an owner: %v", a.Owner())
		}
		if _, ok := holdfast.OwnerFrom(a.Context(), s.x); ok {
			s.Error("its context has an owner")
		}
		kit.Fails(s.T, holdfast.ErrLocked)(s.x.TryLock(context.WithoutCancel(a.Context())))

		// The present one's is its own, and once it is known the hold passes on no more.
		inner := s.Must(s.x.Lock(b.Context()))
		s.WantCount("x", b.Owner(), 2)
		if want := `mutex "x", held by ` + b.Owner().String(); text != want || fmt.Sprint(b) != want || fmt.Sprint(a) != `mutex "x", given up` {
			s.Errorf("%q, %v, and the former one %v", text, b, a)
		}
		s.Unlock(inner)
		before := calls.Of("release")
		s.Unlock(b)
		if calls.Of("release") == before {
			s.Error("a hold whose owner is known was handed over")
		}
		s.Unlock(<-third)
	})
}

// What is not plain is released.
func TestNotHandedOver(t *testing.T) {
	type options = []holdfast.LockOption
	for name, test := range map[string]struct {
		client       holdfast.ClientOption
		mutex        []holdfast.MutexOption
		giver, taker options
		meanwhile    func(s *stage, h *holdfast.Hold)
	}{
		"switched off":         {client: holdfast.WithoutHandOver()},
		"maximum hold":         {client: holdfast.WithMaxHold(time.Hour)},
		"fenced":               {mutex: []holdfast.MutexOption{holdfast.Fenced(holdfast.TokenTTL(time.Second))}},
		"polling":              {mutex: []holdfast.MutexOption{holdfast.Polling(time.Millisecond, time.Second)}},
		"giver fixed":          {giver: options{holdfast.FixedLease(30 * time.Second)}},
		"taker fixed":          {taker: options{holdfast.FixedLease(30 * time.Second)}},
		"other lease":          {taker: options{holdfast.RenewedLease(40 * time.Second)}},
		"giver keeps":          {giver: options{holdfast.MinHold(1500 * time.Microsecond)}},
		"taker keeps":          {taker: options{holdfast.MinHold(time.Second)}},
		"old":                  {meanwhile: func(*stage, *holdfast.Hold) { time.Sleep(25 * time.Millisecond) }},
		"known":                {meanwhile: func(_ *stage, h *holdfast.Hold) { h.Owner() }},
		"known by its context": {meanwhile: func(s *stage, h *holdfast.Hold) { holdfast.OwnerFrom(h.Context(), s.x) }},
		"extended":             {meanwhile: func(s *stage, h *holdfast.Hold) { kit.OK(s.T, h.Extend(background, time.Minute)) }},
		"was nested":           {meanwhile: func(s *stage, h *holdfast.Hold) { s.Unlock(s.Must(s.x.Lock(h.Context()))) }},
		"is nested": {meanwhile: func(s *stage, h *holdfast.Hold) {
			inner := s.Must(s.x.Lock(h.Context()))
			time.AfterFunc(time.Second, func() { s.Unlock(inner) })
		}},
		"short lease": {client: holdfast.WithLease(10 * time.Millisecond), meanwhile: func(*stage, *holdfast.Hold) {
			time.Sleep(900 * time.Microsecond) // less than a slice, but three quarters are not left: 1 % and 2 ms are off
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.client == nil {
				test.client = holdfast.WithLease(holdfast.DefaultLease)
			}
			fake(t, func(s *stage) {
				s.x = s.c.NewMutex("x", test.mutex...)
				a := s.lock(test.giver...)
				next := s.waits(test.taker...)
				if test.meanwhile != nil {
					test.meanwhile(s, a)
				}
				calls := kit.Count(s.d)
				s.Unlock(a)
				if calls.All() == calls.Of("leave") {
					s.Error("it was handed over")
				}
				s.Unlock(<-next)
				time.Sleep(2 * time.Second) // what MinHold keeps, and tokens
			}, test.client)
		})
	}
}

// Those who wait behind a hold that passes on are asked by nobody, and hear all the same when
// their time is over, and of the end of the client.
func TestHandOverLeaving(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next, gone := s.waits(), s.waits(holdfast.Wait(time.Second/2))
		calls := kit.Count(s.d)
		ctx, cancel := context.WithCancel(background)
		waits := func(ctx context.Context) <-chan error {
			return kit.Aside(func() error {
				_, err := s.x.Lock(ctx, holdfast.Wait(time.Minute))
				return err
			})
		}
		one, two := waits(ctx), waits(ctx)
		s.Unlock(a)
		b := <-next
		cancel()
		kit.WantError(s.T, <-one, context.Canceled)
		kit.WantError(s.T, <-two, context.Canceled)
		if h := <-gone; h != nil || calls.All() > calls.Of("leave") {
			s.Errorf("%v, after %d calls", h, calls.All())
		}
		last := waits(background)
		_, err := s.x.Lock(background, holdfast.Wait(time.Second))
		var locked *holdfast.LockedError
		// Of the lease of 30 s a second or two have passed.
		if !errors.As(err, &locked) || locked.TTL < 20*time.Second || locked.Holder.IsZero() {
			s.Errorf("refused: %v", err)
		}
		// An owner that was read there is that of another call.
		kit.Fails(s.T, holdfast.ErrInvalid)(s.x.Lock(holdfast.WithOwner(background, locked.Holder)))
		kit.OK(s.T, s.c.Close())
		kit.WantError(s.T, <-last, holdfast.ErrClosed)
		kit.WantError(s.T, context.Cause(b.Context()), holdfast.ErrClosed)
	})
}

// However many of one process want the lock, another process has its turn soon.
func TestHandOverIsBounded(t *testing.T) {
	fake(t, func(s *stage) {
		end := s.crowd(16, 10*time.Microsecond, func(ctx context.Context) (*holdfast.Hold, error) { return s.x.Lock(ctx) })
		waits := func() time.Duration {
			start := time.Now()
			h := s.Must(s.otherX.Lock(background, holdfast.Wait(100*time.Millisecond))) // it would go on for ever
			took := time.Since(start)
			s.Unlock(h)
			return took
		}
		// A cohort lasts for 4 ms at most, the longest of one that has been alone, and then others
		// try first.
		kit.Took(s.T, waits(), 10*time.Microsecond, 5*time.Millisecond, "the other process has waited for %v")
		time.Sleep(200 * time.Millisecond) // nobody else has wanted it for a while
		var sum, longest time.Duration
		const rounds = 100
		for range rounds {
			took := waits()
			sum, longest = sum+took, max(longest, took)
			time.Sleep(time.Millisecond)
		}
		// The other one has its turn in the gap behind each cohort, and mostly finds one at once. It
		// waits for a cohort of 4 ms at worst, and for some more if it loses that turn. What passes
		// on meanwhile are holds of 10 µs: seen are 30,000, and that 0.1 ms and 4 ms are waited for.
		if holds := end(); holds < 10_000 || sum > rounds*2*time.Millisecond || longest > 20*time.Millisecond {
			s.Errorf("%d holds; another process has waited for %v, at longest %v", holds, sum/rounds, longest)
		}
	})
}

// While nobody else listens a cohort lasts for twenty milliseconds, not for one: Redis is asked less.
func TestHandOverAlone(t *testing.T) {
	fake(t, func(s *stage) {
		calls := kit.Count(s.d)
		end := s.crowd(8, 50*time.Microsecond, func(ctx context.Context) (*holdfast.Hold, error) { return s.x.Lock(ctx) })
		time.Sleep(400 * time.Millisecond)
		end()
		// A cohort and what comes between two take some 20.1 ms.
		if n := calls.Of("acquire"); n < 18 || n > 30 {
			s.Errorf("Redis was asked %d times in 400 ms", n)
		}
	})
}

// Readers who never stop, and share, leave a writer of another process its turn.
func TestReadersWhoShareLeaveGaps(t *testing.T) {
	fake(t, func(s *stage) {
		end := s.crowd(16, 200*time.Microsecond, func(ctx context.Context) (*holdfast.Hold, error) { return s.rw.RLock(ctx) })
		for range 50 {
			start := time.Now()
			h := s.Must(s.otherRW.Lock(background))
			// Without gaps it waits for ever. With them it may lose some: each generation of
			// readers lasts for a slice and a hold, 1.2 ms, and up to 2 ms more.
			s.within(start, 100*time.Millisecond)
			s.Unlock(h)
			time.Sleep(time.Millisecond)
		}
		end()
	})
}

// A key that is deleted by hand under the last of a cohort is somebody's again after a few
// seconds, as if nothing had been handed over, however long the lease.
func TestDeletedWhileHandedOver(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next, third := s.waits(), s.waits()
		s.Unlock(a)
		b := <-next
		s.Do("DEL", "x")
		start := time.Now()
		h := <-third
		// The queue asks when the hold has lasted for a second, and every three seconds.
		s.within(start, 5*time.Second)
		s.Unlock(h)
		synctest.Wait()
		kit.WantError(s.T, b.Unlock(), holdfast.ErrLost)
	}, holdfast.WithLease(10*time.Minute))
}

// Redis has released the lock and its answer is lost: those who wait here do not wait for its repetition.
func TestHandOverEndsUnanswered(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next, third := s.waits(), s.waits()
		s.Unlock(a)
		b := <-next
		time.Sleep(100 * time.Millisecond) // its cohort is over
		kit.Every(s.d, "release", memdriver.Fault{LoseReply: true})
		start := time.Now()
		unlocked := kit.Aside(b.Unlock)
		h := <-third
		// They are silent for 250 ms. The release is repeated after a second.
		s.within(start, 300*time.Millisecond)
		s.d.SetFaults(nil)
		s.Unlock(h)
		kit.OK(s.T, <-unlocked)
	})
}

// Whose time ends while it lets other processes try first hears that the lock was held, and not
// that Redis is silent.
func TestWaitOverBeforeItIsAsked(t *testing.T) {
	fake(t, func(s *stage) {
		a, refused := s.behind(holdfast.Wait(30 * time.Millisecond))
		other := kit.Waiting(s.T, s.otherX, background)
		time.Sleep(25 * time.Millisecond) // longer than a slice
		kit.All(s.d, memdriver.Fault{DelayReply: 2 * time.Millisecond})
		s.Unlock(a)
		kit.WantError(s.T, <-refused, holdfast.ErrLocked)
		s.d.SetFaults(nil)
		s.Unlock(<-other)
	})
}

// One who has waited for a hold of its own process bears an outage as all do who have waited.
func TestOutageBehindHandOver(t *testing.T) {
	fake(t, func(s *stage) {
		a, next := s.behind()
		time.Sleep(25 * time.Millisecond) // longer than a slice
		s.Unlock(a)
		kit.Away(s.d)
		time.Sleep(8 * time.Second)
		s.d.SetFaults(nil)
		kit.OK(s.T, <-next)
	})
}

// An Unlock at the deadline says that the hold is lost, though others have holds of the same
// owner, and the watchdog has not looked yet. Which of two timers comes first is chance.
func TestLeftAtTheDeadline(t *testing.T) {
	for _, nested := range []bool{false, true} {
		fake(t, func(s *stage) {
			var l holdfast.Locker = s.rw.RLocker()
			if nested {
				l = s.x
			}
			for range 20 {
				a, ctx := s.Must(l.Lock(background)), background
				if nested {
					ctx = a.Context()
				}
				b := s.Must(l.Lock(ctx))
				kit.Away(s.d)
				time.Sleep(time.Until(b.Deadline()))
				kit.WantError(s.T, b.Unlock(), holdfast.ErrLost)
				kit.WantError(s.T, context.Cause(b.Context()), holdfast.ErrLost)
				s.d.SetFaults(nil)
				time.Sleep(20 * time.Second)
				kit.WantError(s.T, a.Unlock(), holdfast.ErrLost)
			}
		}, holdfast.WithLease(time.Second))
	}
}

// One that is handed the lock, and comes to look when the lease is over, hears that it was lost.
// Which of two timers comes first is chance.
func TestHandedOverAtTheDeadline(t *testing.T) {
	fake(t, func(s *stage) {
		for range 20 {
			a := s.lock()
			deadline := a.Deadline()
			next := kit.Aside(func() error {
				_, err := s.x.Lock(background, holdfast.WithHooks(holdfast.Hooks{
					OnWait: func(context.Context, holdfast.Event) { time.Sleep(time.Until(deadline)) },
				}))
				return err
			})
			s.Unlock(a)
			kit.Away(s.d)
			kit.WantError(s.T, <-next, holdfast.ErrLost)
			s.d.SetFaults(nil)
			time.Sleep(20 * time.Second)
		}
	}, holdfast.WithLease(time.Second))
}

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

// A nested Lock that has found its hold, and comes after that was handed over, is not nested in the next one.
func TestHandedOverUnderNestedLock(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next := s.waits()
		ctx := &meanwhile{context.WithoutCancel(a.Context()), func() { s.Unlock(a) }}
		kit.Fails(s.T, holdfast.ErrNotHeld)(s.x.TryLock(ctx))
		b := <-next
		s.WantCount("x", b.Owner(), 1)
		s.Unlock(b)
	})
}

// While a nested Lock is under way nothing is handed over: it would be nested in the next one's hold.
func TestNotHandedOverDuringNestedLock(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next := s.waits()
		kit.Every(s.d, "acquire", memdriver.Fault{DelayRequest: 500 * time.Microsecond})
		nested := kit.Waiting(s.T, s.x, context.WithoutCancel(a.Context()))
		unlocked := kit.Aside(a.Unlock)
		kit.Nothing(s.T, next, "it was handed over")
		s.d.SetFaults(nil)
		s.Unlock(<-nested)
		s.Unlock(<-next)
		kit.OK(s.T, <-unlocked)
	})
}

// Several locks that are to be nested in a hold, and wait for another one while it is unlocked: it
// is released, or they would be nested in the next one's.
func TestSeveralNestedInOneThatIsUnlocked(t *testing.T) {
	fake(t, func(s *stage) {
		blocker := s.Must(s.elsewhere.NewMutex("a").Lock(background))
		a := s.lock()
		both := kit.Waiting(s.T, holdfast.NewMultiLock(s.c.NewMutex("a"), s.x), context.WithoutCancel(a.Context()))
		next := s.waits()
		s.Unlock(a)
		b := <-next
		s.Unlock(blocker)
		time.Sleep(5 * time.Second)
		kit.Nothing(s.T, both, "two are inside")
		s.Unlock(b)
		s.Unlock(<-both)
	})
}

// While a waiter's own try is under way nothing is handed over to it: the try could be granted, too.
func TestNotHandedOverDuringTry(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.Must(s.x.TryLock(background))
		kit.Every(s.d, "acquire", memdriver.Fault{DelayRequest: 500 * time.Microsecond})
		next := s.waits()
		calls := kit.Count(s.d)
		s.Unlock(a)
		if calls.Of("release") == 0 {
			s.Error("it was handed over to one whose try is under way")
		}
		s.Unlock(<-next)
		time.Sleep(time.Second)
		s.Unlock(s.Must(s.x.TryLock(background)))
	})
}

// A hold is not handed over if a try for it was not answered: that may still take effect.
func TestNotHandedOverAfterLostReply(t *testing.T) {
	fake(t, func(s *stage) {
		kit.Next(s.d, "acquire", memdriver.Fault{LoseRequest: true})
		first, next := s.waits(), s.waits()
		a := <-first // by the second try
		calls := kit.Count(s.d)
		s.Unlock(a)
		if calls.Of("release") == 0 {
			s.Error("it was handed over")
		}
		s.Unlock(<-next)
	})
}

// One who waits, and has not heard yet that the client shuts down, is not handed the lock.
func TestNotHandedOverDuringShutdown(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		goOn := make(chan struct{})
		next := kit.Aside(func() error {
			_, err := s.x.Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { <-goOn }}))
			return err
		})
		down := kit.BeginShutdown(s.c)
		synctest.Wait()
		s.Unlock(a)
		close(goOn)
		kit.WantError(s.T, <-next, holdfast.ErrClosed)
		kit.OK(s.T, <-down)
	})
}

// While the client shuts down nobody joins, and nothing is handed over.
func TestShutdownEndsSharing(t *testing.T) {
	fake(t, func(s *stage) {
		y := s.c.NewMutex("y")
		r, a := s.read(), s.Must(y.Lock(background))
		next := kit.Waiting(s.T, y, background)
		down := kit.BeginShutdown(s.c)
		synctest.Wait()
		kit.Fails(s.T, holdfast.ErrClosed)(s.rw.TryRLock(background))
		s.Unlock(a)
		if h := <-next; h != nil {
			s.Error("a waiter has got it while the client shuts down")
		}
		s.Unlock(r)
		kit.OK(s.T, <-down)
	})
}

// The owner of a part, of a hold whose parts have several.
func TestOwnerFromPart(t *testing.T) {
	fake(t, func(s *stage) {
		third, _ := s.Client()
		h := s.Must(holdfast.NewRedLock(s.x, s.elsewhere.NewMutex("y"), third.NewMutex("z")).Lock(background))
		owner, ok := holdfast.OwnerFrom(h.Context(), s.x)
		for _, part := range h.Parts() { // two of three may have been enough
			if part.Name() == "x" && (owner != part.Owner() || !ok) {
				s.Errorf("%v, %v, and its part has %v", owner, ok, part.Owner())
			}
		}
		s.Unlock(h)
	})
}
