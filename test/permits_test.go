package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// permitsWorld is fake with a semaphore of n permits. At the end, what Redisson's
// wire demands is all that is left: as many available permits as there were.
func permitsWorld(t *testing.T, n int, f func(t *testing.T, w *world)) {
	t.Helper()
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		if ok, err := c.NewPermitSemaphore("x").TrySetPermits(background, n); !ok || err != nil {
			t.Fatal(ok, err)
		}
		t.Cleanup(func() {
			time.Sleep(callsLive)
			w.wantReply("x", "KEYS", "*")
			w.wantReply(fmt.Sprint(n), "GET", "x")
			w.do("DEL", "x")
		})
		f(t, w)
	})
}

// held is how many permits stand in Redis, expired ones included.
func (w *world) held() string { return w.do("ZCARD", "{x}:timeout") }

// TestPermitsLeaseAndRenewal: permits are renewed, those without are lost in time.
func TestPermitsLeaseAndRenewal(t *testing.T) {
	permitsWorld(t, 3, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		start := time.Now()
		renewed := must(t)(s.Acquire(background, 2))
		leased := must(t)(s.Lock(background, holdfast.FixedLease(10*time.Second)))
		w.wantReply("0", "GET", "x")
		if lost := lostAt(t, leased, start); lost > 10*time.Second || lost < 9*time.Second {
			t.Errorf("lost after %v", lost)
		}
		time.Sleep(time.Minute)
		if err := renewed.Context().Err(); err != nil {
			t.Errorf("the renewed hold: %v", context.Cause(renewed.Context()))
		}
		if free, err := available(s); free != 1 || err != nil {
			t.Errorf("%d available, %v", free, err)
		}
		if found, err := s.Inspect(background); found.Permits != 3 || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
		wantError(t, leased.Unlock(), holdfast.ErrLost)
		unlock(t, renewed)
	})
}

// A renewal raises the scores of its own permits alone, and shortens none.
func TestPermitsRenewalNeverShortens(t *testing.T) {
	permitsWorld(t, 5, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		long := must(t)(s.Acquire(background, 2))
		if err := long.Extend(background, time.Hour); err != nil {
			t.Fatal(err)
		}
		short := must(t)(s.Lock(background, holdfast.FixedLease(time.Minute)))
		time.Sleep(30 * time.Second) // two renewals of long
		for i, id := range long.PermitIDs() {
			if left, err := leaseOf(s, id); err != nil || left != time.Hour-30*time.Second {
				t.Errorf("permit %d: %v left, %v", i, left, err)
			}
		}
		if left, err := leaseOf(s, short.PermitIDs()[0]); err != nil || left != 30*time.Second {
			t.Errorf("the other: %v left, %v", left, err)
		}
		unlock(t, long)
		unlock(t, short)
	})
}

// A batch has holds of several sizes, and one whose key is no semaphore any
// more: each is answered for itself.
func TestPermitsRenewalsInOneBatch(t *testing.T) {
	permitsWorld(t, 9, func(t *testing.T, w *world) {
		c, d := w.client()
		y := c.NewPermitSemaphore("y")
		if _, err := y.TrySetPermits(background, 4); err != nil {
			t.Fatal(err)
		}
		x := c.NewPermitSemaphore("x")
		holds := []*holdfast.Hold{
			must(t)(x.Acquire(background, 3)), must(t)(y.Acquire(background, 4)),
			must(t)(x.Acquire(background, 1)), must(t)(x.Acquire(background, 5)),
		}
		if err := x.ReleasePermits(background, holds[2].PermitIDs()[0]); err != nil {
			t.Fatal(err)
		}
		w.do("DEL", "{y}:timeout")
		w.do("SET", "{y}:timeout", "no semaphore")
		seen := count(d)
		time.Sleep(2 * time.Minute)
		if n := seen.of("renew"); n > 14 {
			t.Errorf("%d renewals", n)
		}
		for i, lost := range []bool{false, true, true, false} {
			if got := holds[i].Context().Err() != nil; got != lost {
				t.Errorf("hold %d: lost %v, want %v", i, got, lost)
			}
		}
		w.do("DEL", "y", "{y}:timeout")
		unlock(t, holds[0])
		_ = holds[1].Unlock()
		_ = holds[2].Unlock()
		unlock(t, holds[3])
	})
}

// TestPermitsHaveOneEffect goes through acquire and release with each fault at
// each, and checks how many permits are available after each.
func TestPermitsHaveOneEffect(t *testing.T) {
	for name, fault := range faults {
		for _, step := range []string{"acquire", "release"} {
			t.Run(name+"/"+step, func(t *testing.T) {
				permitsWorld(t, 5, func(t *testing.T, w *world) {
					c, d := w.client()
					s := c.NewPermitSemaphore("x")
					once(d, step, fault)
					h := must(t)(s.Acquire(background, 2))
					w.wantReply("3", "GET", "x")
					trusted := time.Until(h.Deadline())
					for _, id := range h.PermitIDs() {
						if left, err := leaseOf(s, id); left < trusted || err != nil {
							t.Errorf("%v left of a permit that is trusted for %v, %v", left, trusted, err)
						}
					}
					time.Sleep(time.Minute)
					w.wantReply("3", "GET", "x")
					if h.Context().Err() != nil {
						t.Error("lost")
					}
					unlock(t, h)
					w.wantReply("5", "GET", "x")
					time.Sleep(time.Minute)
					if held := w.held(); held != "0" {
						t.Errorf("%s held", held)
					}
				})
			})
		}
	}
}

// Nor does it matter what happens to a release by id.
func TestReleaseByIDHasOneEffect(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			permitsWorld(t, 5, func(t *testing.T, w *world) {
				a, _ := w.client()
				c, d := w.client()
				h := must(t)(a.NewPermitSemaphore("x").Acquire(background, 2))
				once(d, "release", fault)
				ok(t, c.NewPermitSemaphore("x").ReleasePermits(background, h.PermitIDs()...))
				w.wantReply("5", "GET", "x")
				wantError(t, h.Unlock(), holdfast.ErrLost)
				time.Sleep(30 * time.Second)
				w.wantReply("5", "GET", "x")
			})
		})
	}
}

// S24: no client's clock is sent, but for the time after which a call does nothing.
func TestS24_OnlyTheServersClockCounts(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, d := w.client()
		s := c.NewPermitSemaphore("x")
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			for i, arg := range call.Args[1:] {
				if ms, err := strconv.ParseInt(arg, 10, 64); err == nil && ms > 1e9 {
					t.Errorf("%s: argument %d is a time: %s", call.Script.Name(), i+1, arg)
				}
			}
			return memdriver.Fault{}
		})
		h := must(t)(s.Acquire(background, 2))
		_, err := s.Acquire(background, 1, holdfast.Wait(15*time.Second))
		wantError(t, err, holdfast.ErrLocked)
		ok(t, s.ExtendPermit(background, h.PermitIDs()[0], time.Hour), s.AddPermits(background, 1), s.SetPermits(background, 2))
		unlock(t, h)
	})
}

// A holder does not ask whether it still holds its permits whenever others come
// and go: only once, when its subscription stands.
func TestHoldersDoNotListenToTheTraffic(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, d := w.client()
		h := must(t)(c.NewPermitSemaphore("x").Lock(background))
		seen := count(d)
		other, _ := w.client()
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			unlock(t, must(t)(other.NewPermitSemaphore("x").Lock(background)))
		}
		if n := seen.all(); n > 1 {
			t.Errorf("%d calls", n)
		}
		unlock(t, h)
	})
}

// Settings have their effect once, too, and a delayed one does not undo the next.
func TestPermitSettingsHaveOneEffect(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			permitsWorld(t, 5, func(t *testing.T, w *world) {
				c, d := w.client()
				s := c.NewPermitSemaphore("x")
				steps := []func() error{
					func() error { return s.AddPermits(background, 3) },
					func() error { return s.SetPermits(background, 4) },
					func() error { return s.AddPermits(background, -4) },
					func() error { w.do("DEL", "x"); _, err := s.TrySetPermits(background, 5); return err },
				}
				for i, want := range []string{"8", "4", "0", "5"} {
					once(d, []string{"add", "set"}[i%2], fault)
					if err := steps[i](); err != nil {
						t.Fatal(i, err)
					}
					w.wantReply(want, "GET", "x")
				}
				time.Sleep(time.Minute)
				w.wantReply("5", "GET", "x")
			})
		})
	}
}

// A caller that is cancelled takes nothing, at whichever moment.
func TestCancelledPermitsAreGivenBack(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"slow":       {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
		"repeated":   {DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 5 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				permitsWorld(t, 5, func(t *testing.T, w *world) {
					c, d := w.client()
					once(d, "acquire", fault)
					ctx, cancel := context.WithTimeout(background, after)
					defer cancel()
					h, err := c.NewPermitSemaphore("x").Acquire(ctx, 2)
					if err == nil {
						unlock(t, h)
					} else {
						wantError(t, err, context.DeadlineExceeded)
					}
					time.Sleep(5 * time.Second)
					w.wantReply("5", "GET", "x")
				})
			})
		}
	}
}

// Waiters for one do not starve a waiter for many: it gets its permits within one
// round of releases, though others ask without end.
func TestManyAreNotStarvedByOnes(t *testing.T) {
	permitsWorld(t, 3, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		defer func() { cancel(); wg.Wait() }()
		for range 6 {
			c, _ := w.client()
			s := c.NewPermitSemaphore("x")
			wg.Go(func() {
				for ctx.Err() == nil {
					h, err := s.Lock(ctx)
					if err != nil {
						return
					}
					time.Sleep(7 * time.Millisecond)
					unlock(t, h)
				}
			})
			time.Sleep(time.Millisecond)
		}
		c, _ := w.client()
		start := time.Now()
		h := must(t)(c.NewPermitSemaphore("x").Acquire(background, 3, holdfast.Wait(time.Minute)))
		if took := time.Since(start); took > time.Second {
			t.Errorf("the waiter for all waited %v", took)
		}
		unlock(t, h)
	})
}

// One who waits for many, and has died, is stood back for no longer than 10 s;
// one who leaves, not at all.
func TestReservationEnds(t *testing.T) {
	for _, died := range []bool{true, false} {
		permitsWorld(t, 3, func(t *testing.T, w *world) {
			a, _ := w.client()
			b, d := w.client()
			one := must(t)(a.NewPermitSemaphore("x").Lock(background))
			ctx, cancel := context.WithCancel(background)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, err := b.NewPermitSemaphore("x").Acquire(ctx, 3)
				wantError(t, err, context.Canceled)
			}()
			time.Sleep(time.Second)
			if died {
				silent(d, memdriver.Fault{LoseRequest: true})
			} else {
				time.AfterFunc(time.Second, cancel)
			}
			_, err := a.NewPermitSemaphore("x").TryLock(background)
			wantError(t, err, holdfast.ErrLocked)
			start := time.Now()
			two := must(t)(a.NewPermitSemaphore("x").Lock(background))
			if took := time.Since(start); took > 10*time.Second || !died && took > 1010*time.Millisecond {
				t.Errorf("died %v: stood back for %v", died, took)
			}
			cancel()
			<-gone
			d.SetFaults(nil)
			unlock(t, one)
			unlock(t, two)
		})
	}
}

// One who wants more permits than there are waits, and nobody for it.
func TestImpossibleNumberBlocksNobody(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		ctx, cancel := context.WithCancel(background)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, err := s.Acquire(ctx, 3)
			wantError(t, err, context.Canceled)
		}()
		time.Sleep(time.Second)
		unlock(t, must(t)(s.TryAcquire(background, 2)))
		start := time.Now()
		other, _ := w.client()
		for _, waiter := range []*holdfast.PermitSemaphore{s, other.NewPermitSemaphore("x")} {
			unlock(t, must(t)(waiter.Acquire(background, 2)))
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("others waited %v", took)
		}
		cancel()
		<-gone
	})
}

// L2: a waiter whose message is lost, or to whom nothing is said because a
// permit's lease has run out, waits no longer than three seconds for it.
func TestL2_PermitsAreFoundWithoutMessage(t *testing.T) {
	permitsWorld(t, 1, func(t *testing.T, w *world) {
		a, _ := w.client()
		c, d := w.client()
		h := must(t)(a.NewPermitSemaphore("x").Lock(background))
		got := make(chan time.Time)
		go func() {
			next := must(t)(c.NewPermitSemaphore("x").Lock(background))
			at := time.Now()
			unlock(t, next)
			got <- at
		}()
		time.Sleep(time.Second)
		d.LoseMessages(true)
		released := time.Now()
		unlock(t, h)
		if took := (<-got).Sub(released); took > 3*time.Second {
			t.Errorf("waited %v", took)
		}
		d.LoseMessages(false)
		must(t)(a.NewPermitSemaphore("x").Lock(background, holdfast.FixedLease(1500*time.Millisecond))) // crashed, so to say
		start := time.Now()
		unlock(t, must(t)(c.NewPermitSemaphore("x").Lock(background)))
		if took := time.Since(start); took > 1510*time.Millisecond {
			t.Errorf("waited %v for a permit with 1.5 s left", took)
		}
	})
}

// L4: no waiter of a process sleeps beside permits that it could have.
func TestL4_NobodySleepsBesideFreePermits(t *testing.T) {
	permitsWorld(t, 4, func(t *testing.T, w *world) {
		a, _ := w.client()
		c, _ := w.client()
		all := must(t)(a.NewPermitSemaphore("x").Acquire(background, 4))
		start := time.Now()
		var wg sync.WaitGroup
		var most atomic.Int64
		for _, n := range []int{3, 1, 1, 2, 1} {
			wg.Go(func() {
				h := must(t)(c.NewPermitSemaphore("x").Acquire(background, n))
				if took := int64(time.Since(start)); took > most.Load() {
					most.Store(took)
				}
				time.Sleep(10 * time.Millisecond)
				unlock(t, h)
			})
			synctest.Wait()
		}
		unlock(t, all)
		wg.Wait()
		if most := time.Duration(most.Load()); most > 20*time.Millisecond { // 3+1, then 1+2+1
			t.Errorf("the last one waited %v", most)
		}
	})
}

// L16: what is announced is a decimal number, and never below 0.
func TestL16_PayloadsAreNeverNegative(t *testing.T) {
	permitsWorld(t, 3, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var said []string
		listener := w.server.Driver().Listen(func(e driver.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == driver.Message {
				said = append(said, e.Payload)
			}
		})
		defer listener.Close()
		listener.Subscribe("redisson_sc:{x}")
		synctest.Wait()
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		h := must(t)(s.Acquire(background, 3))
		leased := func() { _ = must(t)(s.Lock(background, holdfast.FixedLease(time.Second))) }
		if err := errors.Join(s.AddPermits(background, -2), s.AddPermits(background, 1)); err != nil {
			t.Fatal(err)
		}
		unlock(t, h) // 2 are available
		leased()
		time.Sleep(2 * time.Second)
		if n, err := available(s); n != 2 || err != nil {
			t.Error(n, err)
		}
		if err := errors.Join(s.SetPermits(background, 1), s.SetPermits(background, 3)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"0", "2", "2", "3"}; !slices.Equal(said, want) {
			t.Errorf("announced %v, want %v", said, want)
		}
	})
}

// L17: however many permits have expired, they are all back at once.
func TestL17_ManyExpiredPermits(t *testing.T) {
	const n = 10_000
	permitsWorld(t, n, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		for range n / 2000 {
			_ = must(t)(s.Acquire(background, 2000, holdfast.FixedLease(time.Second)))
		}
		w.wantReply("0", "GET", "x")
		time.Sleep(2 * time.Second)
		if free, err := available(s); free != n || err != nil {
			t.Errorf("%d available, %v", free, err)
		}
	})
}

// L22: what asks for no permits, or for too many, is refused before it is sent.
func TestL22_NoPermitsAreRefused(t *testing.T) {
	permitsWorld(t, 1, func(t *testing.T, w *world) {
		c, d := w.client()
		s := c.NewPermitSemaphore("x")
		seen := count(d)
		for _, n := range []int{0, -1, holdfast.MaxPermitsPerHold + 1} {
			_, err1 := s.Acquire(background, n)
			_, err2 := s.TryAcquire(background, n)
			for _, err := range []error{err1, err2} {
				wantError(t, err, holdfast.ErrInvalid)
			}
		}
		_, err1 := s.TrySetPermits(background, -1)
		wantError(t, err1, holdfast.ErrInvalid)
		wantError(t, s.SetPermits(background, -1), holdfast.ErrInvalid)
		wantError(t, s.AddPermits(background, holdfast.MaxCount+1), holdfast.ErrInvalid)
		wantError(t, s.ReleasePermits(background), holdfast.ErrInvalid)
		for _, id := range []holdfast.Owner{{}, c.NewOwner()} {
			wantError(t, s.ReleasePermits(background, id), holdfast.ErrInvalid)
			wantError(t, s.ExtendPermit(background, id, time.Minute), holdfast.ErrInvalid)
		}
		wantError(t, s.ExtendPermit(background, permitID(strings.Repeat("0", 32)), 0), holdfast.ErrInvalid)
		wantError(t, c.NewPermitSemaphore("a}b").AddPermits(background, 1), holdfast.ErrInvalid)
		if n := seen.all(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// A8: a permit whose lease has ended is available again, and whoever asks for it
// is told that it is not held.
func TestA8_ExpiredPermitsAreBack(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		h := must(t)(s.Acquire(background, 2, holdfast.FixedLease(time.Second)))
		ids := h.PermitIDs()
		_, err := s.TryLock(background) // Redisson's tryAcquireAsync panics here
		wantError(t, err, holdfast.ErrLocked)
		_, err = s.TryAcquire(background, 2)
		wantError(t, err, holdfast.ErrLocked)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != time.Second {
			t.Errorf("refused: %+v", err)
		}
		time.Sleep(time.Second)
		wantError(t, s.ReleasePermits(background, ids[0]), holdfast.ErrNotHeld)
		w.wantReply("2", "GET", "x")
		wantError(t, s.ExtendPermit(background, ids[1], time.Minute), holdfast.ErrNotHeld)
		if left, err := leaseOf(s, ids[1]); left != 0 || err != nil {
			t.Errorf("%v left, %v", left, err)
		}
		wantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		w.wantReply("2", "GET", "x")
	})
}

// Permits can be given back, and kept, by their ids: all of a call or none.
func TestPermitsByID(t *testing.T) {
	permitsWorld(t, 4, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, _ := w.client()
		s, other := a.NewPermitSemaphore("x"), b.NewPermitSemaphore("x")
		h := must(t)(s.Acquire(background, 2, holdfast.FixedLease(time.Minute)))
		kept := must(t)(s.Lock(background))
		ids := h.PermitIDs()
		if found, err := other.Inspect(background); err != nil || !found.HeldBy(permitID(ids[0].String())) || found.HeldBy(h.Owner()) {
			t.Errorf("Inspect: %+v, %v", found, err)
		}
		_, err1 := a.NewMutex("y").Adopt(background, ids[0])
		wantError(t, err1, holdfast.ErrInvalid)
		_, err2 := a.NewMutex("y").TryLock(holdfast.WithOwner(background, ids[0]))
		wantError(t, err2, holdfast.ErrInvalid)
		if err := other.ExtendPermit(background, ids[0], time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := other.ExtendPermit(background, ids[0], time.Second); err != nil {
			t.Fatal(err)
		}
		if left, err := leaseOf(other, ids[0]); left != time.Hour || err != nil {
			t.Errorf("%v left, %v", left, err)
		}
		wantError(t, other.ReleasePermits(background, ids[0], permitID(strings.Repeat("00", 16))), holdfast.ErrNotHeld)
		w.wantReply("1", "GET", "x")
		if err := other.ReleasePermits(background, ids...); err != nil {
			t.Fatal(err)
		}
		w.wantReply("3", "GET", "x")
		wantError(t, other.ReleasePermits(background, ids...), holdfast.ErrNotHeld)
		w.wantReply("3", "GET", "x")
		wantError(t, h.Unlock(), holdfast.ErrLost)
		w.wantReply("3", "GET", "x")
		part := must(t)(s.Acquire(background, 2))
		ok(t, other.ReleasePermits(background, part.PermitIDs()[0]))
		unlock(t, part) // of the other one
		w.wantReply("3", "GET", "x")

		found, err := other.Inspect(background)
		if err != nil || len(found.Holders) != 1 || !found.HeldBy(kept.PermitIDs()[0]) || found.Holders[0].TTL != 30*time.Second || found.TTL != holdfast.NoExpiry {
			t.Errorf("Inspect: %+v, %v", found, err)
		}
		if forced, err := s.ForceUnlock(background); !forced || err != nil {
			t.Error(forced, err)
		}
		synctest.Wait()
		if kept.Context().Err() == nil {
			t.Error("the holder was not told")
		}
		w.wantReply("4", "GET", "x")
		if forced, err := s.ForceUnlock(background); forced || err != nil {
			t.Error(forced, err)
		}
		if got := must(t)(a.NewMutex("y").Lock(background)).PermitIDs(); got != nil {
			t.Errorf("ids of a mutex: %v", got)
		}
	})
}

// A permit of Redisson's that never ends can be given an end, and is not
// reclaimed before.
func TestPermitWithoutEnd(t *testing.T) {
	permitsWorld(t, 1, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		w.do("DECR", "x")
		w.do("ZADD", "{x}:timeout", "922337203685477", "0123456789abcdef")
		id := permitID(fmt.Sprintf("%x", "0123456789abcdef"))
		_, err := s.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry {
			t.Errorf("%+v", err)
		}
		if left, err := leaseOf(s, id); left != holdfast.NoExpiry || err != nil {
			t.Error(left, err)
		}
		if found, err := s.Inspect(background); found.Holders[0].TTL != holdfast.NoExpiry || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
		if err := s.ExtendPermit(background, id, time.Second); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		unlock(t, must(t)(s.Lock(background)))
		if took := time.Since(start); took > 1010*time.Millisecond {
			t.Errorf("waited %v", took)
		}
	})
}

// A semaphore with a time to live takes its permits with it.
func TestPermitsTimeToLive(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		w.do("SET", "x", "3", "PX", "60000")
		h := must(t)(s.Acquire(background, 2))
		if ttl := w.pttl("{x}:timeout"); ttl != time.Minute {
			t.Errorf("the permits live for %v", ttl)
		}
		if err := s.AddPermits(background, 2); err != nil {
			t.Fatal(err)
		}
		if ttl := w.pttl("x"); ttl != time.Minute {
			t.Errorf("A9: after AddPermits it lives for %v", ttl)
		}
		time.Sleep(2 * time.Minute)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
	})
}

// A semaphore that was deleted while permits were held, and is made anew, has as
// many as it was given: those that are held still count.
func TestHeldPermitsCountInANewSemaphore(t *testing.T) {
	permitsWorld(t, 3, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		h := must(t)(s.Acquire(background, 2))
		w.do("DEL", "x")
		if set, err := s.TrySetPermits(background, 3); !set || err != nil {
			t.Fatal(set, err)
		}
		w.wantReply("1", "GET", "x")
		unlock(t, h)
		w.wantReply("3", "GET", "x")
	})
}

// A permit does not take part in the reentrancy of the context that it is
// acquired under, and keeps that context's owner.
func TestPermitsAreNotReentrant(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		outer := must(t)(c.NewMutex("m").Lock(background))
		one := must(t)(s.Lock(outer.Context()))
		two := must(t)(s.Lock(one.Context()))
		w.wantReply("0", "GET", "x")
		inner := must(t)(c.NewMutex("m").TryLock(two.Context()))
		for _, h := range []*holdfast.Hold{inner, two, one, outer} {
			unlock(t, h)
		}
	})
}

// Close gives back, and does not leave a waiter behind.
func TestPermitsAtClose(t *testing.T) {
	permitsWorld(t, 2, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x")
		h := must(t)(s.Acquire(background, 2))
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, err := s.Acquire(background, 2)
			wantError(t, err, holdfast.ErrClosed)
		}()
		time.Sleep(time.Second)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		<-gone
		w.wantReply("2", "GET", "x")
		wantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
		w.wantReply("0", "EXISTS", "holdfast_next:{x}")
	})
}

// Whatever mixture of requests waits, with crashes among the holders: nobody sleeps
// while there is enough for it. Each round's time is known, so a waiter that was
// not told shows as seconds.
func TestNoWaiterSleepsBesidePermits(t *testing.T) {
	for seed := range uint64(3) {
		permitsWorld(t, 4, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 0))
			start := time.Now()
			var wg sync.WaitGroup
			var held, most atomic.Int32
			for range 4 {
				c, d := w.client()
				silent(d, memdriver.Fault{
					DelayRequest: time.Duration(random.IntN(1000)) * time.Microsecond, DelayReply: 500 * time.Microsecond,
				})
				s := c.NewPermitSemaphore("x")
				for range 4 {
					plan := rand.New(rand.NewPCG(seed, random.Uint64()))
					wg.Go(func() {
						for range 8 {
							n, crash := plan.Int32N(3)+1, plan.IntN(8) == 0
							h := must(t)(s.Acquire(background, int(n), holdfast.FixedLease(100*time.Millisecond)))
							if now := held.Add(n); now > most.Load() {
								most.Store(now)
							}
							if crash {
								<-h.Context().Done()
							} else {
								time.Sleep(time.Duration(plan.IntN(3000)) * time.Microsecond)
							}
							held.Add(-n)
							if !crash {
								unlock(t, h)
							}
						}
					})
				}
			}
			wg.Wait()
			last, _ := w.client()
			_, err := available(last.NewPermitSemaphore("x")) // takes note of the last crash
			ok(t, err)
			// Some sixteen crashes of 100 ms, and 200 ms for who stood back for one of them.
			if took := time.Since(start); took > 2900*time.Millisecond {
				t.Errorf("seed %d: took %v", seed, took)
			}
			if most.Load() > 4 {
				t.Errorf("seed %d: %d permits held", seed, most.Load())
			}
			time.Sleep(time.Second)
			c, _ := w.client() // what the last ones left when they crashed comes back when somebody asks
			if free, err := available(c.NewPermitSemaphore("x")); free != 4 || err != nil {
				t.Errorf("seed %d: %d available, %v", seed, free, err)
			}
		})
	}
}

// A hold of several locks is not one of the semaphore's, though a part of it is.
func TestIDsOfSeveralLocks(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		sem := c.NewPermitSemaphore("s")
		if err := sem.SetPermits(background, 1); err != nil {
			t.Fatal(err)
		}
		h := must(t)(holdfast.NewMultiLock(sem, c.NewMutex("m")).Lock(background))
		if ids := h.PermitIDs(); ids != nil {
			t.Errorf("ids %v of the whole", ids)
		}
		unlock(t, h)
		w.do("DEL", "s", "holdfast_calls:{s}")
	})
}
