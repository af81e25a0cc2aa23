package owner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// taker returns the lock as another client has it, who takes holds over, and its driver.
func (s *stage) taker() (kit.AnyLock, *memdriver.Driver) {
	s.Helper()
	c, d := s.Client()
	return s.Lock(c), d
}

// adopt has the lock take over what an owner has detached, as another process is told of it.
func (s *stage) adopt(l kit.AnyLock, owner holdfast.Owner, options ...holdfast.TryOption) *holdfast.Hold {
	s.Helper()
	told, err := holdfast.ParseOwner(owner.String())
	kit.OK(s.T, err)
	return s.Must(l.Adopt(background, told, options...))
}

// A hold goes from one process to another, and nobody gets in between.
func TestTransfer(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		taker, d := s.taker()
		h := s.lock(background)
		time.Sleep(time.Minute)
		owner := s.detach(h)
		if owner != h.Owner() || !errors.Is(context.Cause(h.Context()), context.Canceled) || !h.Deadline().IsZero() {
			s.Errorf("detached as %v, cause %v, deadline %v", owner, context.Cause(h.Context()), h.Deadline())
		}
		_, err := h.Detach()
		kit.WantError(s.T, err, holdfast.ErrNotHeld)
		kit.WantError(s.T, h.Unlock(), holdfast.ErrNotHeld)
		s.WantCount("x", owner, 1)
		ctx := holdfast.WithOwner(background, owner)
		kit.Fails(s.T, holdfast.ErrInvalid)(s.x.Lock(ctx)) // it is about to be replaced
		if s.Kind.Mode == "write" {
			kit.Fails(s.T, holdfast.ErrInvalid)(s.Kind.Readers(s.c, "x").TryLock(ctx))
		}
		time.Sleep(5 * time.Second)
		kit.Fails(s.T, holdfast.ErrLocked)(s.theirs.TryLock(background))
		seen := kit.Count(d)
		adopted := s.adopt(taker, owner)
		if n := seen.All(); n != 1 || adopted.Owner() == owner {
			s.Errorf("%d calls, want 1; adopted from %v by %v", n, owner, adopted.Owner())
		}
		s.WantCount("x", adopted.Owner(), 1)
		if h.Token() > 0 && adopted.Token() <= h.Token() {
			s.Errorf("adopted with token %d, taken with %d", adopted.Token(), h.Token())
		}
		time.Sleep(10 * time.Minute) // it is renewed, sixty times
		s.WantCount("x", adopted.Owner(), 1)
		kit.Fails(s.T, holdfast.ErrNotHeld)(taker.Adopt(background, owner))
		if s.Kind.Nests() {
			s.Unlock(s.Must(taker.TryLock(adopted.Context())))
		}
		s.Unlock(adopted)
		s.WantCount("x", adopted.Owner(), 0)
		if got, has := holdfast.OwnerFrom(context.WithoutCancel(adopted.Context()), taker); has {
			s.Errorf("its context still speaks for %v", got)
		}
	})
}

// What is not detached, or cannot be. An owner of both sides of a read-write lock keeps both: whoever took one over would be beside
// the other.
func TestTransferRefused(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		taker, _ := s.taker()
		refused := func(target error, holds ...*holdfast.Hold) {
			s.Helper()
			for _, h := range holds {
				_, err := h.Detach()
				kit.WantError(s.T, err, target)
			}
		}
		kit.Fails(s.T, holdfast.ErrNotHeld)(taker.Adopt(background, s.c.NewOwner()))
		h := s.Must(s.x.TryLock(background))
		nested := s.lock(h.Context())
		refused(holdfast.ErrReentrant, h, nested)
		s.Unlock(nested)
		s.WantCount("x", h.Owner(), 1)
		if s.Kind.Mode == "write" {
			reading := s.Must(s.Kind.Readers(s.c, "x").Lock(h.Context()))
			refused(holdfast.ErrReentrant, h, reading)
			kit.Fails(s.T, holdfast.ErrReentrant)(taker.Adopt(background, h.Owner()))
			kit.Fails(s.T, holdfast.ErrReentrant)(s.Kind.Readers(s.other, "x").Adopt(background, h.Owner()))
			s.Unlock(reading)
		}
		s.Unlock(h)
		short := s.lock(background, holdfast.FixedLease(time.Second))
		<-short.Context().Done()
		refused(holdfast.ErrLost, short)
		permits := s.c.NewPermitSemaphore("s", holdfast.Permits(1))
		permit, several := s.Must(permits.TryLock(background)), s.Must(holdfast.NewMultiLock(s.c.NewMutex("m"), s.x).Lock(background))
		refused(holdfast.ErrInvalid, permit, several)
		s.Unlock(permit, several)
		s.Do("DEL", "s", "{s}:timeout", "holdfast_calls:{s}")
	})
}

// Adopting what was not detached is taking it away: its holder is told as soon as
// after a forced unlock.
func TestTheftIsTold(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		if s.Kind.Polling {
			return // nobody listens, and the next renewal tells
		}
		taker, _ := s.taker()
		h := s.lock(background)
		time.Sleep(2 * time.Second)
		adopted := s.adopt(taker, h.Owner())
		time.Sleep(100 * time.Millisecond)
		kit.WantLost(s.T, h)
		s.Lost(h)
		time.Sleep(5 * time.Second)
		s.WantCount("x", adopted.Owner(), 1) // the loser's Unlock takes nothing along
		s.Unlock(adopted)
	})
}

// The giver's acquire was sent twice, and the first send is still on its way when
// it detaches. It must not arrive after the taker's release.
func TestTransferWaitsForWhatIsOnItsWay(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		taker, _ := s.taker()
		late := func() { kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond}) }
		goes := func(h *holdfast.Hold) {
			owner := s.detach(h)
			s.Unlock(s.adopt(taker, owner))
			for range 100 {
				time.Sleep(50 * time.Millisecond)
				s.WantCount("x", owner, 0)
			}
		}
		late()
		goes(s.lock(background)) // by the second send
		if s.Kind.Mode == "write" {
			h := s.lock(background)
			late()
			s.Unlock(s.Must(s.Kind.Readers(s.c, "x").Lock(h.Context())))
			goes(h)
		}
	})
}

// An Adopt whose answer is lost is asked again, and is done: a late send of it takes no nested hold's count away. One that fails
// leaves nothing that nobody holds.
func TestTransferWithLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		fault memdriver.Fault
		wait  time.Duration
	}{
		"lost":             {memdriver.Fault{LoseReply: true}, 0},
		"lost, given up":   {memdriver.Fault{LoseReply: true}, 100 * time.Millisecond},
		"late, given up":   {memdriver.Fault{DelayRequest: 500 * time.Millisecond}, 100 * time.Millisecond},
		"never, given up":  {memdriver.Fault{LoseRequest: true}, 100 * time.Millisecond},
		"never, and again": {memdriver.Fault{LoseRequest: true}, 0},
		"late, and again":  {memdriver.Fault{DelayRequest: 2200 * time.Millisecond}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fakeKinds(t, func(s *stage) {
				taker, d := s.taker()
				owner := s.detach(s.lock(background))
				kit.Next(d, "adopt", test.fault)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if test.wait == 0 {
					adopted := s.adopt(taker, owner)
					s.WantCount("x", adopted.Owner(), 1)
					if s.Kind.Nests() {
						nested := s.Must(taker.Lock(adopted.Context()))
						time.Sleep(time.Second) // what is late arrives
						s.WantCount("x", adopted.Owner(), 2)
						s.Unlock(s.Must(taker.Lock(adopted.Context())), nested)
					}
					s.Unlock(adopted)
				} else {
					time.AfterFunc(test.wait, cancel)
					kit.Fails(s.T, context.Canceled)(taker.Adopt(ctx, owner))
				}
				time.Sleep(31 * time.Second) // a lease, and the answer to a lost send
				s.WantCount("x", owner, 0)
			})
		})
	}
}

// An adopted hold lives for as long as its own lease, whatever the giver's was: the taker
// knows of no other, and would leave the lock to the rest of it.
func TestTransferEndsTheGiversLease(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		taker, d := s.taker()
		owner := s.detach(s.lock(background, holdfast.RenewedLease(10*time.Minute)))
		adopted := s.adopt(taker, owner, holdfast.FixedLease(5*time.Second))
		if lives, key := s.Lives(adopted.Owner()), s.PTTL("x"); lives > 5*time.Second || key > 5*time.Second {
			s.Errorf("the hold lives for %v, the key for %v", lives, key)
		}
		kit.OK(s.T, adopted.Extend(background, time.Minute))
		start := time.Now()
		kit.Away(d)
		kit.Took(s.T, kit.LostAt(s.T, adopted, start), 55*time.Second, time.Minute, "lost after %v")
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		s.WantCount("x", adopted.Owner(), 0)
		s.Lost(adopted)
	})
}

// A Lock of the owner that waits while Detach waits must not get in beside the taker.
func TestLockDuringDetach(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		if s.Kind.Shared {
			return
		}
		taker, _ := s.taker()
		kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		h := s.lock(s.own) // by the second send
		var owner holdfast.Owner
		detached := kit.Aside(func() (err error) { owner, err = h.Detach(); return err }) // it waits for the first send
		locked := kit.Begin(func() (*holdfast.Hold, error) { return s.x.TryLock(s.own) })
		kit.OK(s.T, <-detached)
		nested := (<-locked).Hold
		adopted := s.adopt(taker, owner)
		if nested != nil && nested.Context().Err() == nil && adopted.Context().Err() == nil {
			s.Error("two inside: the giver's Lock, and the taker's Adopt")
		}
		if nested != nil {
			_ = nested.Unlock() // it may have been taken over
		}
		_ = adopted.Unlock()
		time.Sleep(time.Minute)
	})
}

// Detach, Adopt and ForceUnlock of one client at one lock get out of each other's way.
func TestDetachBesideForce(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		ctx, stop := context.WithCancel(background)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.x.ForceUnlock(background) // there may be nothing to take
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 100 {
			h := s.lock(background)
			if owner, err := h.Detach(); err == nil {
				if h, err := s.x.Adopt(background, owner); err == nil {
					_ = h.Unlock()
				}
			}
			_ = h.Unlock()
		}
		stop()
		all.Wait()
	})
}
