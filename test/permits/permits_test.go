package permits

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestPermitsLeaseAndRenewal: permits are renewed, those without are lost in time.
func TestPermitsLeaseAndRenewal(t *testing.T) {
	kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		start := time.Now()
		renewed := kit.Must(t)(s.Acquire(background, 2))
		leased := kit.Must(t)(s.Lock(background, holdfast.FixedLease(10*time.Second)))
		w.WantReply("0", "GET", "x")
		lostWithin(t, leased, start, 9*time.Second, 10*time.Second)
		time.Sleep(time.Minute)
		kit.OK(t, renewed.Context().Err())
		wantFree(t, s, 1)
		if found, err := s.Inspect(background); found.Permits != 3 || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
		kit.WantError(t, leased.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, renewed)
	})
}

// A renewal raises the scores of its own permits alone, and shortens none.
func TestPermitsRenewalNeverShortens(t *testing.T) {
	kit.PermitsWorld(t, 5, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		long := kit.Must(t)(s.Acquire(background, 2))
		kit.OK(t, long.Extend(background, time.Hour))
		short := kit.Must(t)(s.Lock(background, holdfast.FixedLease(time.Minute)))
		time.Sleep(30 * time.Second) // two renewals of long
		for i, id := range long.PermitIDs() {
			if left, err := kit.LeaseOf(s, id); err != nil || left != time.Hour-30*time.Second {
				t.Errorf("permit %d: %v left, %v", i, left, err)
			}
		}
		if left, err := kit.LeaseOf(s, short.PermitIDs()[0]); err != nil || left != 30*time.Second {
			t.Errorf("the other: %v left, %v", left, err)
		}
		kit.Unlock(t, long)
		kit.Unlock(t, short)
	})
}

// A batch has holds of several sizes, and one whose key is no semaphore any
// more: each is answered for itself.
func TestPermitsRenewalsInOneBatch(t *testing.T) {
	kit.PermitsWorld(t, 9, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		y := c.NewPermitSemaphore("y")
		wantDid(t, true)(y.TrySetPermits(background, 4))
		x := c.NewPermitSemaphore("x")
		holds := []*holdfast.Hold{
			kit.Must(t)(x.Acquire(background, 3)), kit.Must(t)(y.Acquire(background, 4)),
			kit.Must(t)(x.Acquire(background, 1)), kit.Must(t)(x.Acquire(background, 5)),
		}
		kit.OK(t, x.ReleasePermits(background, holds[2].PermitIDs()[0]))
		w.Do("DEL", "{y}:timeout")
		w.Do("SET", "{y}:timeout", "no semaphore")
		seen := kit.Count(d)
		time.Sleep(2 * time.Minute)
		if n := seen.Of("renew"); n > 14 {
			t.Errorf("%d renewals", n)
		}
		for i, lost := range []bool{false, true, true, false} {
			if got := holds[i].Context().Err() != nil; got != lost {
				t.Errorf("hold %d: lost %v, want %v", i, got, lost)
			}
		}
		w.Do("DEL", "y", "{y}:timeout")
		kit.Unlock(t, holds[0])
		_ = holds[1].Unlock()
		_ = holds[2].Unlock()
		kit.Unlock(t, holds[3])
	})
}

// TestPermitsHaveOneEffect goes through acquire and release with each fault at
// each, and checks how many permits are available after each.
func TestPermitsHaveOneEffect(t *testing.T) {
	for _, step := range []string{"acquire", "release", "release of the rest", "release by id"} {
		t.Run(step, func(t *testing.T) {
			underFaults(t, "permits", 5, func(t *testing.T, w *kit.World, c *holdfast.Client, once func(string)) {
				s := c.NewPermitSemaphore("x")
				once(step)
				h := kit.Must(t)(s.Acquire(background, 2))
				w.WantReply("3", "GET", "x")
				trusted := time.Until(h.Deadline())
				for _, id := range h.PermitIDs() {
					if left, err := kit.LeaseOf(s, id); left < trusted || err != nil {
						t.Errorf("%v left of a permit that is trusted for %v, %v", left, trusted, err)
					}
				}
				time.Sleep(time.Minute)
				w.WantReply("3", "GET", "x")
				kit.OK(t, h.Context().Err())
				switch step {
				case "release of the rest":
					kit.OK(t, s.ReleasePermits(background, h.PermitIDs()[0]))
					once("release")
					kit.Unlock(t, h)
				case "release by id":
					once("release")
					kit.OK(t, s.ReleasePermits(background, h.PermitIDs()...))
					kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				default:
					kit.Unlock(t, h)
				}
				w.WantReply("5", "GET", "x")
				time.Sleep(time.Minute)
				w.WantReply("5", "GET", "x")
				w.WantReply("0", "ZCARD", "{x}:timeout")
			})
		})
	}
}

// S24: no client's clock is sent, but for the time after which a call does nothing.
func TestS24_OnlyTheServersClockCounts(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewPermitSemaphore("x")
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			for i, arg := range call.Args[1:] {
				if ms, err := strconv.ParseInt(arg, 10, 64); err == nil && ms > 1e9 {
					t.Errorf("%s: argument %d is a time: %s", call.Script.Name(), i+1, arg)
				}
			}
			return memdriver.Fault{}
		})
		h := kit.Must(t)(s.Acquire(background, 2))
		_, err := s.Acquire(background, 1, holdfast.Wait(15*time.Second))
		kit.WantError(t, err, holdfast.ErrLocked)
		kit.OK(t, s.ExtendPermit(background, h.PermitIDs()[0], time.Hour), s.AddPermits(background, 1), s.SetPermits(background, 2))
		kit.Unlock(t, h)
	})
}

// A holder does not ask whether it still holds its permits whenever others come
// and go: only once, when its subscription stands.
func TestHoldersDoNotListenToTheTraffic(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		h := kit.Must(t)(c.NewPermitSemaphore("x").Lock(background))
		seen := kit.Count(d)
		other, _ := w.Client()
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			kit.Unlock(t, kit.Must(t)(other.NewPermitSemaphore("x").Lock(background)))
		}
		if n := seen.All(); n > 1 {
			t.Errorf("%d calls", n)
		}
		kit.Unlock(t, h)
	})
}

// Settings have their effect once, too, and a delayed one does not undo the next.
func TestPermitSettingsHaveOneEffect(t *testing.T) {
	underFaults(t, "permits", 5, func(t *testing.T, w *kit.World, c *holdfast.Client, once func(string)) {
		s := c.NewPermitSemaphore("x")
		for _, step := range []struct {
			script, want string
			do           func() error
		}{
			{"add", "8", func() error { return s.AddPermits(background, 3) }},
			{"set", "4", func() error { return s.SetPermits(background, 4) }},
			{"add", "0", func() error { return s.AddPermits(background, -4) }},
			{"set", "5", func() error { w.Do("DEL", "x"); return errOf(s.TrySetPermits(background, 5)) }},
		} {
			once(step.script)
			kit.OK(t, step.do())
			w.WantReply(step.want, "GET", "x")
		}
		time.Sleep(time.Minute)
		w.WantReply("5", "GET", "x")
	})
}

// One who waits for many, and has died, is stood back for no longer than 10 s;
// one who leaves, not at all.
func TestReservationEnds(t *testing.T) {
	for _, died := range []bool{true, false} {
		kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
			a, _ := w.Client()
			b, d := w.Client()
			one := kit.Must(t)(a.NewPermitSemaphore("x").Lock(background))
			ctx, cancel := context.WithCancel(background)
			gone := refusing(t, func() error { return errOf(b.NewPermitSemaphore("x").Acquire(ctx, 3)) }, context.Canceled)
			time.Sleep(time.Second)
			if died {
				kit.Silent(d, memdriver.Fault{LoseRequest: true})
			} else {
				time.AfterFunc(time.Second, cancel)
			}
			_, err := a.NewPermitSemaphore("x").TryLock(background)
			kit.WantError(t, err, holdfast.ErrLocked)
			start, most := time.Now(), 10*time.Second
			if !died {
				most = 1010 * time.Millisecond
			}
			two := kit.Must(t)(a.NewPermitSemaphore("x").Lock(background))
			within(t, start, 0, most)
			cancel()
			gone()
			d.SetFaults(nil)
			kit.Unlock(t, one)
			kit.Unlock(t, two)
		})
	}
}

// One who wants more permits than there are waits, and nobody for it.
func TestImpossibleNumberBlocksNobody(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		ctx, cancel := context.WithCancel(background)
		gone := refusing(t, func() error { return errOf(s.Acquire(ctx, 3)) }, context.Canceled)
		time.Sleep(time.Second)
		kit.Unlock(t, kit.Must(t)(s.TryAcquire(background, 2)))
		start := time.Now()
		other, _ := w.Client()
		for _, waiter := range []*holdfast.PermitSemaphore{s, other.NewPermitSemaphore("x")} {
			kit.Unlock(t, kit.Must(t)(waiter.Acquire(background, 2)))
		}
		within(t, start, 0, 0)
		cancel()
		gone()
	})
}

// L16: what is announced is a decimal number, and never below 0.
func TestL16_PayloadsAreNeverNegative(t *testing.T) {
	kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
		said := announced(w, "redisson_sc:{x}")
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		h := kit.Must(t)(s.Acquire(background, 3))
		kit.OK(t, s.AddPermits(background, -2), s.AddPermits(background, 1))
		kit.Unlock(t, h) // 2 are available
		_ = kit.Must(t)(s.Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		wantFree(t, s, 2)
		kit.OK(t, s.SetPermits(background, 1), s.SetPermits(background, 3))
		if got, want := said(), []string{"0", "2", "2", "3"}; !slices.Equal(got, want) {
			t.Errorf("announced %v, want %v", got, want)
		}
	})
}

// L17: however many permits have expired, they are all back at once.
func TestL17_ManyExpiredPermits(t *testing.T) {
	const n = 10_000
	kit.PermitsWorld(t, n, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		for range n / 2000 {
			_ = kit.Must(t)(s.Acquire(background, 2000, holdfast.FixedLease(time.Second)))
		}
		w.WantReply("0", "GET", "x")
		time.Sleep(2 * time.Second)
		wantFree(t, s, n)
	})
}

// A8: a permit whose lease has ended is available again, and whoever asks for it
// is told that it is not held.
func TestA8_ExpiredPermitsAreBack(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		h := kit.Must(t)(s.Acquire(background, 2, holdfast.FixedLease(time.Second)))
		ids := h.PermitIDs()
		_, err := s.TryLock(background) // Redisson's tryAcquireAsync panics here
		kit.WantError(t, err, holdfast.ErrLocked)
		_, err = s.TryAcquire(background, 2)
		kit.WantError(t, err, holdfast.ErrLocked)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != time.Second {
			t.Errorf("refused: %+v", err)
		}
		time.Sleep(time.Second)
		kit.WantError(t, s.ReleasePermits(background, ids[0]), holdfast.ErrNotHeld)
		w.WantReply("2", "GET", "x")
		kit.WantError(t, s.ExtendPermit(background, ids[1], time.Minute), holdfast.ErrNotHeld)
		if left, err := kit.LeaseOf(s, ids[1]); left != 0 || err != nil {
			t.Errorf("%v left, %v", left, err)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		w.WantReply("2", "GET", "x")
	})
}

// Permits can be given back, and kept, by their ids: all of a call or none.
func TestPermitsByID(t *testing.T) {
	kit.PermitsWorld(t, 4, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		s, other := a.NewPermitSemaphore("x"), b.NewPermitSemaphore("x")
		h := kit.Must(t)(s.Acquire(background, 2, holdfast.FixedLease(time.Minute)))
		kept := kit.Must(t)(s.Lock(background))
		ids := h.PermitIDs()
		if found, err := other.Inspect(background); err != nil || !found.HeldBy(kit.PermitID(ids[0].String())) || found.HeldBy(h.Owner()) {
			t.Errorf("Inspect: %+v, %v", found, err)
		}
		_, err1 := a.NewMutex("y").Adopt(background, ids[0])
		kit.WantError(t, err1, holdfast.ErrInvalid)
		_, err2 := a.NewMutex("y").TryLock(holdfast.WithOwner(background, ids[0]))
		kit.WantError(t, err2, holdfast.ErrInvalid)
		kit.OK(t, other.ExtendPermit(background, ids[0], time.Hour), other.ExtendPermit(background, ids[0], time.Second))
		if left, err := kit.LeaseOf(other, ids[0]); left != time.Hour || err != nil {
			t.Errorf("%v left, %v", left, err)
		}
		kit.WantError(t, other.ReleasePermits(background, ids[0], kit.PermitID(strings.Repeat("00", 16))), holdfast.ErrNotHeld)
		w.WantReply("1", "GET", "x")
		kit.OK(t, other.ReleasePermits(background, ids...))
		w.WantReply("3", "GET", "x")
		kit.WantError(t, other.ReleasePermits(background, ids...), holdfast.ErrNotHeld)
		w.WantReply("3", "GET", "x")
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		w.WantReply("3", "GET", "x")
		part := kit.Must(t)(s.Acquire(background, 2))
		kit.OK(t, other.ReleasePermits(background, part.PermitIDs()[0]))
		kit.Unlock(t, part) // of the other one
		w.WantReply("3", "GET", "x")

		found, err := other.Inspect(background)
		if err != nil || len(found.Holders) != 1 || !found.HeldBy(kept.PermitIDs()[0]) || found.Holders[0].TTL != 30*time.Second || found.TTL != holdfast.NoExpiry {
			t.Errorf("Inspect: %+v, %v", found, err)
		}
		wantDid(t, true)(s.ForceUnlock(background))
		synctest.Wait()
		if kept.Context().Err() == nil {
			t.Error("the holder was not told")
		}
		w.WantReply("4", "GET", "x")
		wantDid(t, false)(s.ForceUnlock(background))
		if got := kit.Must(t)(a.NewMutex("y").Lock(background)).PermitIDs(); got != nil {
			t.Errorf("ids of a mutex: %v", got)
		}
	})
}

// A permit of Redisson's that never ends can be given an end, and is not
// reclaimed before.
func TestPermitWithoutEnd(t *testing.T) {
	kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		w.Do("DECR", "x")
		w.Do("ZADD", "{x}:timeout", "922337203685477", "0123456789abcdef")
		id := kit.PermitID(fmt.Sprintf("%x", "0123456789abcdef"))
		_, err := s.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry {
			t.Errorf("%+v", err)
		}
		if left, err := kit.LeaseOf(s, id); left != holdfast.NoExpiry || err != nil {
			t.Error(left, err)
		}
		if found, err := s.Inspect(background); found.Holders[0].TTL != holdfast.NoExpiry || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
		kit.OK(t, s.ExtendPermit(background, id, time.Second))
		start := time.Now()
		kit.Unlock(t, kit.Must(t)(s.Lock(background)))
		within(t, start, time.Second, 1010*time.Millisecond)
	})
}

// A semaphore with a time to live takes its permits with it.
func TestPermitsTimeToLive(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		w.Do("SET", "x", "3", "PX", "60000")
		h := kit.Must(t)(s.Acquire(background, 2))
		if ttl := w.PTTL("{x}:timeout"); ttl != time.Minute {
			t.Errorf("the permits live for %v", ttl)
		}
		kit.OK(t, s.AddPermits(background, 2))
		if ttl := w.PTTL("x"); ttl != time.Minute {
			t.Errorf("A9: after AddPermits it lives for %v", ttl)
		}
		time.Sleep(2 * time.Minute)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
	})
}

// A semaphore that was deleted while permits were held, and is made anew, has as
// many as it was given: those that are held still count.
func TestHeldPermitsCountInANewSemaphore(t *testing.T) {
	kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		h := kit.Must(t)(s.Acquire(background, 2))
		w.Do("DEL", "x")
		wantDid(t, true)(s.TrySetPermits(background, 3))
		w.WantReply("1", "GET", "x")
		kit.Unlock(t, h)
		w.WantReply("3", "GET", "x")
	})
}

// A permit does not take part in the reentrancy of the context that it is
// acquired under, and keeps that context's owner.
func TestPermitsAreNotReentrant(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		outer := kit.Must(t)(c.NewMutex("m").Lock(background))
		one := kit.Must(t)(s.Lock(outer.Context()))
		two := kit.Must(t)(s.Lock(one.Context()))
		w.WantReply("0", "GET", "x")
		inner := kit.Must(t)(c.NewMutex("m").TryLock(two.Context()))
		for _, h := range []*holdfast.Hold{inner, two, one, outer} {
			kit.Unlock(t, h)
		}
	})
}

// Close gives back, and does not leave a waiter behind.
func TestPermitsAtClose(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		h := kit.Must(t)(s.Acquire(background, 2))
		gone := refusing(t, func() error { return errOf(s.Acquire(background, 2)) }, holdfast.ErrClosed)
		time.Sleep(time.Second)
		kit.OK(t, c.Close())
		gone()
		w.WantReply("2", "GET", "x")
		kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
		w.WantReply("0", "EXISTS", "holdfast_next:{x}")
	})
}

// Whatever mixture of requests waits, with crashes among the holders: nobody sleeps
// while there is enough for it. Each round's time is known, so a waiter that was
// not told shows as seconds.
func TestNoWaiterSleepsBesidePermits(t *testing.T) {
	for seed := range uint64(3) {
		kit.PermitsWorld(t, 4, func(t *testing.T, w *kit.World) {
			random := rand.New(rand.NewPCG(seed, 0))
			start := time.Now()
			var wg sync.WaitGroup
			var held, most atomic.Int32
			for range 4 {
				c, d := w.Client()
				kit.Silent(d, memdriver.Fault{
					DelayRequest: time.Duration(random.IntN(1000)) * time.Microsecond, DelayReply: 500 * time.Microsecond,
				})
				s := c.NewPermitSemaphore("x")
				for range 4 {
					plan := rand.New(rand.NewPCG(seed, random.Uint64()))
					wg.Go(func() {
						for range 8 {
							n, crash := plan.Int32N(3)+1, plan.IntN(8) == 0
							h := kit.Must(t)(s.Acquire(background, int(n), holdfast.FixedLease(100*time.Millisecond)))
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
								kit.Unlock(t, h)
							}
						}
					})
				}
			}
			wg.Wait()
			last, _ := w.Client()
			_, err := kit.Available(last.NewPermitSemaphore("x")) // takes note of the last crash
			kit.OK(t, err)
			// Some sixteen crashes of 100 ms, and 200 ms for who stood back for one of them.
			within(t, start, 0, 2900*time.Millisecond)
			if most.Load() > 4 {
				t.Errorf("seed %d: %d permits held", seed, most.Load())
			}
			time.Sleep(time.Second)
			c, _ := w.Client() // what the last ones left when they crashed comes back when somebody asks
			wantFree(t, c.NewPermitSemaphore("x"), 4)
		})
	}
}

// A hold of several locks is not one of the semaphore's, though a part of it is.
func TestIDsOfSeveralLocks(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		sem := c.NewPermitSemaphore("s")
		kit.OK(t, sem.SetPermits(background, 1))
		h := kit.Must(t)(holdfast.NewMultiLock(sem, c.NewMutex("m")).Lock(background))
		if ids := h.PermitIDs(); ids != nil {
			t.Errorf("ids %v of the whole", ids)
		}
		kit.Unlock(t, h)
		w.Do("DEL", "s", "holdfast_calls:{s}")
	})
}
