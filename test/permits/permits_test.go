package permits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Permits are renewed. A renewal raises the scores of its own permits alone, and shortens none. Those that are not renewed are lost in
// time.
func TestPermitsAreRenewed(t *testing.T) {
	on(t, "permits", 6, func(s *stage) {
		start := time.Now()
		renewed, long := s.acquire(2), s.acquire(2)
		kit.OK(s.T, long.Extend(background, time.Hour))
		short, lost := s.acquire(1, holdfast.FixedLease(time.Minute)), s.acquire(1, holdfast.FixedLease(10*time.Second))
		s.WantReply("0", "GET", "x")
		lostWithin(s.T, lost, start, 9*time.Second, 10*time.Second)
		time.Sleep(time.Until(start.Add(30 * time.Second))) // two renewals of long
		for _, id := range long.PermitIDs() {
			s.wantLease(id, time.Hour-30*time.Second)
		}
		s.wantLease(short.PermitIDs()[0], 30*time.Second)
		kit.Unlock(s.T, short)
		time.Sleep(time.Minute)
		kit.OK(s.T, renewed.Context().Err())
		want(s.T, 2)(kit.Available(s.permits))
		if found, err := s.permits.Inspect(background); found.Permits != 6 || err != nil {
			s.T.Errorf("%+v, %v", found, err)
		}
		kit.Unlock(s.T, long)
		kit.Unlock(s.T, renewed)
	})
}

// A batch has holds of several sizes, and one whose key is no semaphore any
// more: each is answered for itself.
func TestPermitsRenewalsInOneBatch(t *testing.T) {
	on(t, "permits", 9, func(s *stage) {
		y := s.c.NewPermitSemaphore("y")
		kit.WantDid(s.T, true)(y.TrySetPermits(background, 4))
		holds := []*holdfast.Hold{s.acquire(3), kit.Must(s.T)(y.Acquire(background, 4)), s.acquire(1), s.acquire(5)}
		kit.OK(s.T, s.permits.ReleasePermits(background, holds[2].PermitIDs()[0]))
		s.Do("DEL", "{y}:timeout")
		s.Do("SET", "{y}:timeout", "no semaphore")
		seen := kit.Count(s.d)
		time.Sleep(2 * time.Minute)
		if n := seen.Of("renew"); n > 14 {
			s.T.Errorf("%d renewals", n)
		}
		s.Do("DEL", "y", "{y}:timeout")
		for i, lost := range []bool{false, true, true, false} {
			if ended, err := holds[i].Context().Err() != nil, holds[i].Unlock(); ended != lost || (err != nil) != lost {
				s.T.Errorf("hold %d: lost %v, want %v; %v", i, ended, lost, err)
			}
		}
	})
}

// TestPermitsHaveOneEffect goes through acquire and release with each fault at
// each, and checks how many permits are available after each.
func TestPermitsHaveOneEffect(t *testing.T) {
	for _, step := range []string{"acquire", "release", "release of the rest", "release by id"} {
		t.Run(step, func(t *testing.T) {
			underFaults(t, "permits", 5, func(s *stage, once func(string)) {
				once(step)
				h := s.acquire(2)
				s.WantReply("3", "GET", "x")
				trusted := time.Until(h.Deadline())
				for _, id := range h.PermitIDs() {
					if left, err := kit.LeaseOf(s.permits, id); left < trusted || err != nil {
						s.T.Errorf("%v left of a permit that is trusted for %v, %v", left, trusted, err)
					}
				}
				time.Sleep(time.Minute)
				s.WantReply("3", "GET", "x")
				kit.OK(s.T, h.Context().Err())
				switch step {
				case "release of the rest":
					kit.OK(s.T, s.permits.ReleasePermits(background, h.PermitIDs()[0]))
					once("release")
					kit.Unlock(s.T, h)
				case "release by id":
					once("force")
					kit.OK(s.T, s.permits.ReleasePermits(background, h.PermitIDs()...))
					kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
				default:
					kit.Unlock(s.T, h)
				}
				s.WantReply("5", "GET", "x")
				time.Sleep(time.Minute)
				s.WantReply("5", "GET", "x")
				s.WantReply("0", "ZCARD", "{x}:timeout")
			})
		})
	}
}

// S24: no client's clock is sent, but for the time after which a call does nothing.
func TestS24_OnlyTheServersClockCounts(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		s.d.SetFaults(func(call driver.Call) memdriver.Fault {
			for i, arg := range call.Args[1:] {
				if ms, err := strconv.ParseInt(arg, 10, 64); err == nil && ms > 1e9 {
					s.T.Errorf("%s: argument %d is a time: %s", call.Script.Name(), i+1, arg)
				}
			}
			return memdriver.Fault{}
		})
		h := s.acquire(2)
		kit.Fails(s.T, holdfast.ErrLocked)(s.permits.Acquire(background, 1, holdfast.Wait(15*time.Second)))
		kit.OK(s.T, s.permits.ExtendPermit(background, h.PermitIDs()[0], time.Hour), s.permits.AddPermits(background, 1))
		kit.OK(s.T, s.permits.SetPermits(background, 2))
		kit.Unlock(s.T, h)
	})
}

// A holder does not ask whether it still holds its permits whenever others come
// and go: only once, when its subscription stands.
func TestHoldersDoNotListenToTheTraffic(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		h := s.acquire(1)
		seen := kit.Count(s.d)
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			kit.Unlock(s.T, kit.Must(s.T)(s.theirs.Lock(background)))
		}
		if n := seen.All(); n > 1 {
			s.T.Errorf("%d calls", n)
		}
		kit.Unlock(s.T, h)
	})
}

// L16: what is announced is a decimal number, and never below 0.
func TestL16_PayloadsAreNeverNegative(t *testing.T) {
	on(t, "permits", 3, func(s *stage) {
		announced := s.announced("redisson_sc:{x}")
		one, two := s.acquire(1), s.acquire(2)
		kit.OK(s.T, s.permits.AddPermits(background, -2), s.permits.AddPermits(background, 1))
		kit.Unlock(s.T, one) // none is available
		kit.Unlock(s.T, two) // 2 are
		_ = s.acquire(1, holdfast.FixedLease(time.Second))
		time.Sleep(2 * time.Second)
		want(s.T, 2)(kit.Available(s.permits))
		kit.OK(s.T, s.permits.SetPermits(background, 1), s.permits.SetPermits(background, 3))
		announced("0", "2", "2", "3")
	})
}

// L17: however many permits have expired, they are all back at once.
func TestL17_ManyExpiredPermits(t *testing.T) {
	const n = 10_000
	on(t, "permits", n, func(s *stage) {
		for range n / 2000 {
			_ = s.acquire(2000, holdfast.FixedLease(time.Second))
		}
		s.WantReply("0", "GET", "x")
		time.Sleep(2 * time.Second)
		want(s.T, n)(kit.Available(s.permits))
	})
}

// A8: a permit whose lease has ended is available again, and whoever asks for it
// is told that it is not held.
func TestA8_ExpiredPermitsAreBack(t *testing.T) {
	on(t, "permits", 2, func(w *stage) {
		s := w.permits
		h := w.acquire(2, holdfast.FixedLease(time.Second))
		ids := h.PermitIDs()
		kit.Fails(w.T, holdfast.ErrLocked)(s.TryLock(background)) // Redisson's tryAcquireAsync panics here
		_, err := s.TryAcquire(background, 2)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != time.Second {
			w.T.Errorf("refused: %+v", err)
		}
		time.Sleep(time.Second)
		kit.WantError(w.T, s.ReleasePermits(background, ids[0]), holdfast.ErrNotHeld)
		w.WantReply("2", "GET", "x")
		kit.WantError(w.T, s.ExtendPermit(background, ids[1], time.Minute), holdfast.ErrNotHeld)
		w.wantLease(ids[1], 0)
		kit.WantError(w.T, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		w.WantReply("2", "GET", "x")
	})
}

// Permits can be given back, and kept, by their ids: all of a call or none.
func TestPermitsByID(t *testing.T) {
	on(t, "permits", 4, func(w *stage) {
		s, other, y := w.permits, w.theirs, w.c.NewMutex("y")
		h, kept := w.acquire(2, holdfast.FixedLease(time.Minute)), w.acquire(1)
		ids := h.PermitIDs()
		if found, err := other.Inspect(background); err != nil || !found.HeldBy(kit.PermitID(ids[0].String())) || found.HeldBy(h.Owner()) {
			w.T.Errorf("Inspect: %+v, %v", found, err)
		}
		kit.Fails(w.T, holdfast.ErrInvalid)(y.Adopt(background, ids[0]))
		kit.Fails(w.T, holdfast.ErrInvalid)(y.TryLock(holdfast.WithOwner(background, ids[0])))
		kit.OK(w.T, other.ExtendPermit(background, ids[0], time.Hour), other.ExtendPermit(background, ids[0], time.Second))
		w.wantLease(ids[0], time.Hour)
		kit.WantError(w.T, other.ReleasePermits(background, ids[0], kit.PermitID(strings.Repeat("00", 16))), holdfast.ErrNotHeld)
		w.WantReply("1", "GET", "x")
		kit.OK(w.T, other.ReleasePermits(background, ids...))
		w.WantReply("3", "GET", "x")
		kit.WantError(w.T, other.ReleasePermits(background, ids...), holdfast.ErrNotHeld)
		w.WantReply("3", "GET", "x")
		kit.WantError(w.T, h.Unlock(), holdfast.ErrLost)
		w.WantReply("3", "GET", "x")
		part := w.acquire(2)
		kit.OK(w.T, other.ReleasePermits(background, part.PermitIDs()[0]))
		kit.Unlock(w.T, part) // of the other one
		w.WantReply("3", "GET", "x")

		found, err := other.Inspect(background)
		if err != nil || len(found.Holders) != 1 || !found.HeldBy(kept.PermitIDs()[0]) || found.Holders[0].TTL != 30*time.Second || found.TTL != holdfast.NoExpiry {
			w.T.Errorf("Inspect: %+v, %v", found, err)
		}
		kit.WantDid(w.T, true)(s.ForceUnlock(background))
		synctest.Wait()
		if kept.Context().Err() == nil {
			w.T.Error("the holder was not told")
		}
		w.WantReply("4", "GET", "x")
		kit.WantDid(w.T, false)(s.ForceUnlock(background))
		for _, l := range []holdfast.Locker{y, holdfast.NewMultiLock(s, w.c.NewMutex("z"))} { // though a part of this is one of the semaphore's
			other := kit.Must(w.T)(l.Lock(background))
			if ids := other.PermitIDs(); ids != nil {
				w.T.Errorf("ids %v of %v", ids, l)
			}
			kit.Unlock(w.T, other)
		}
	})
}

// A permit of Redisson's that never ends can be given an end, and is not
// reclaimed before.
func TestPermitWithoutEnd(t *testing.T) {
	on(t, "permits", 1, func(w *stage) {
		s := w.permits
		w.Do("DECR", "x")
		w.Do("ZADD", "{x}:timeout", "922337203685477", "0123456789abcdef")
		id := kit.PermitID(fmt.Sprintf("%x", "0123456789abcdef"))
		_, err := s.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry {
			w.T.Errorf("%+v", err)
		}
		w.wantLease(id, holdfast.NoExpiry)
		if found, err := s.Inspect(background); found.Holders[0].TTL != holdfast.NoExpiry || err != nil {
			w.T.Errorf("%+v, %v", found, err)
		}
		kit.OK(w.T, s.ExtendPermit(background, id, time.Second))
		start := time.Now()
		kit.Unlock(w.T, w.acquire(1))
		within(w.T, start, time.Second, 1010*time.Millisecond)
	})
}

// A permit does not take part in the reentrancy of the context that it is
// acquired under, and keeps that context's owner.
func TestPermitsAreNotReentrant(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		m := s.c.NewMutex("m")
		outer := kit.Must(s.T)(m.Lock(background))
		one := kit.Must(s.T)(s.permits.Lock(outer.Context()))
		two := kit.Must(s.T)(s.permits.Lock(one.Context()))
		s.WantReply("0", "GET", "x")
		inner := kit.Must(s.T)(m.TryLock(two.Context()))
		for _, h := range []*holdfast.Hold{inner, two, one, outer} {
			kit.Unlock(s.T, h)
		}
	})
}

// Close gives back, and does not leave a waiter behind.
func TestPermitsAtClose(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		h := s.acquire(2)
		gone := refusing(s.T, func() error { return kit.ErrOf(s.permits.Acquire(background, 2)) }, holdfast.ErrClosed)
		time.Sleep(time.Second)
		kit.OK(s.T, s.c.Close())
		gone()
		s.WantReply("2", "GET", "x")
		kit.WantError(s.T, context.Cause(h.Context()), holdfast.ErrClosed)
		s.WantReply("0", "EXISTS", kit.WaitlistKey("x"), kit.RequestsKey("x"))
	})
}

// Whatever mixture of requests waits, with crashes among the holders: nobody sleeps
// while there is enough for it. Each round's time is known, so a waiter that was
// not told shows as seconds.
func TestNoWaiterSleepsBesidePermits(t *testing.T) {
	for seed := range uint64(3) {
		on(t, "permits", 4, func(s *stage) {
			random := rand.New(rand.NewPCG(seed, 0))
			start := time.Now()
			var wg sync.WaitGroup
			var held atomic.Int32
			for range 4 {
				c, d := s.Client()
				kit.All(d, memdriver.Fault{
					DelayRequest: time.Duration(random.IntN(1000)) * time.Microsecond, DelayReply: 500 * time.Microsecond,
				})
				for range 4 {
					plan := rand.New(rand.NewPCG(seed, random.Uint64()))
					wg.Go(func() {
						for range 8 {
							n, crash := plan.Int32N(3)+1, plan.IntN(8) == 0
							h, err := c.NewPermitSemaphore("x").Acquire(background, int(n), holdfast.FixedLease(100*time.Millisecond))
							if err != nil {
								s.T.Error(err)
								return
							}
							if now := held.Add(n); now > 4 {
								s.T.Errorf("seed %d: %d permits held", seed, now)
							}
							if crash {
								<-h.Context().Done()
							} else {
								time.Sleep(time.Duration(plan.IntN(3000)) * time.Microsecond)
							}
							if held.Add(-n); !crash {
								kit.Unlock(s.T, h)
							}
						}
					})
				}
			}
			wg.Wait()
			kit.OK(s.T, kit.ErrOf(kit.Available(s.permits))) // takes note of the last crash
			// Some sixteen crashes of 100 ms, and 200 ms for who stood back for one of them.
			within(s.T, start, 0, 2900*time.Millisecond)
			time.Sleep(time.Second)
			want(s.T, 4)(kit.Available(s.theirs)) // what the last ones left when they crashed comes back when somebody asks
		})
	}
}
