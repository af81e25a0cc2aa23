package hold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Loss is told before the key can expire, and only then.

func TestUnansweredRenewalsAreToldBeforeTheKeyExpires(t *testing.T) {
	for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, 10 * time.Minute} {
		run := kinds
		if lease > holdfast.DefaultLease {
			run = fake // hundreds of renewals, which the other kinds do not make differently
		}
		rows(t, run, map[string]memdriver.Fault{
			"requests lost": {LoseRequest: true},
			"replies lost":  {LoseReply: true},
			"refused":       {Refuse: errors.New("connection refused")},
			"delayed":       {DelayRequest: min(2*lease, 9*time.Second)},
		}, func(s *stage, fault memdriver.Fault) {
			h := s.lock()
			kit.All(s.d, fault)
			start := time.Now()
			took := kit.LostAt(s.T, h, start)
			if s.Lives(h.Owner()) <= 0 {
				s.Errorf("the key had expired when the loss was told after %v", took)
			}
			kit.Fails(s.T, holdfast.ErrLocked)(s.rival.TryLock(background))
			if trusted := lease * 98 / 100; took < trusted-3*time.Millisecond {
				s.Errorf("lost after %v, with the key good for %v", took, lease)
			}
			s.d.SetFaults(nil)
			if deadline := h.Deadline().Sub(start); deadline != took {
				s.Errorf("deadline after %v, lost after %v", deadline, took)
			}
			err := h.Unlock()
			kit.WantError(s.T, err, holdfast.ErrLost, holdfast.ErrNotHeld)
			var lost *holdfast.LostError
			if !errors.As(err, &lost) || lost.Name != "x" || lost.Reason == "" {
				s.Errorf("Unlock: %#v", err)
			}
		}, holdfast.WithLease(lease))
	}
}

// What Redis did in time counts, however late its reply is read, or the request has arrived: the lease begins anew when that was sent.
func TestLateRepliesKeepTheHold(t *testing.T) {
	rows(t, kinds, map[string]memdriver.Fault{
		"reply read late":       {DelayReply: 3 * time.Second},
		"reply read very late":  {DelayReply: 5 * time.Second},
		"request held up":       {DelayRequest: 3 * time.Second},
		"both":                  {DelayRequest: 2 * time.Second, DelayReply: 2 * time.Second},
		"reply within patience": {DelayReply: time.Second},
	}, func(s *stage, fault memdriver.Fault) {
		h := s.lock()
		kit.All(s.d, fault)
		for range 100 {
			time.Sleep(time.Second)
			if left := time.Until(h.Deadline()); left > s.Lives(h.Owner()) {
				s.Fatalf("it is trusted for %v, and its key lives for %v", left, s.Lives(h.Owner()))
			}
		}
		s.trusts(h)
		s.d.SetFaults(nil)
		s.Unlock(h)
	}, holdfast.WithLease(9*time.Second))
}

// A renewal that arrives after its holder lost trust does not keep the lock.
func TestLateRenewalsDoNotOutliveTrust(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock()
		start := time.Now()
		kit.All(s.d, memdriver.Fault{DelayRequest: 25 * time.Second})
		kit.LostAt(s.T, h, start)
		s.Unlock(s.heldByOther())
		s.within(start, 0, 31*time.Second)
		s.d.SetFaults(nil)
		s.Lost(h)
	})
}

// A lock that somebody deletes, or overwrites, is noticed at the next renewal. A key that is no lock any more ends no other hold of its
// batch.
func TestDeletedKeyIsNoticedAtTheNextRenewal(t *testing.T) {
	rows(t, kinds, map[string]func(s *stage, h *holdfast.Hold){
		"deleted":     func(s *stage, _ *holdfast.Hold) { s.Do("DEL", "x") },
		"overwritten": func(s *stage, _ *holdfast.Hold) { s.Do("SET", "x", "something else") },
		"spoiled":     func(s *stage, h *holdfast.Hold) { s.Do("HSET", "x", s.Kind.Field(h.Owner().String()), "junk") },
	}, func(s *stage, take func(s *stage, h *holdfast.Hold)) {
		before := s.Must(s.Use(s.c, "before").Lock(background))
		h := s.lock()
		after := s.Must(s.Use(s.c, "after").Lock(background))
		time.Sleep(5 * time.Second)
		take(s, h)
		start := time.Now()
		kit.LostAt(s.T, h, start)
		s.within(start, 0, 10*time.Second) // a third of the lease
		s.Lost(h)
		time.Sleep(2 * time.Minute)
		s.trusts(before)
		s.trusts(after)
		s.Unlock(before, after)
		s.Do("DEL", "x")
	})
}

func TestForcedUnlockIsToldAtOnce(t *testing.T) {
	rows(t, kinds, map[string]holdfast.LockOption{
		"renewed": holdfast.RenewedLease(holdfast.DefaultLease), "fixed": holdfast.FixedLease(time.Hour),
	}, func(s *stage, lease holdfast.LockOption) {
		h := s.lock(lease)
		time.Sleep(1100 * time.Millisecond)
		other, _ := s.Client()
		operator := s.Lock(other)
		start, bound := time.Now(), 100*time.Millisecond
		kit.Force(s.T, operator)
		if s.Kind.Polling { // it does not listen: it notices at its next renewal, or at its end
			bound = time.Until(h.Deadline())
		}
		kit.Took(s.T, kit.LostAt(s.T, h, start), 0, bound, "told after %v")
		if was, err := operator.ForceUnlock(background); err != nil || was {
			s.Errorf("ForceUnlock of a free lock: %v, %v", was, err)
		}
		kit.WantError(s.T, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
	})
}

// S5: what a forced unlock does not delete goes on being renewed.
func TestForcedUnlockThatFailsLeavesTheHold(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock()
		kit.Next(s.d, "force", memdriver.Fault{LoseRequest: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.WantError(s.T, kit.ErrOf(s.l.ForceUnlock(ctx)), context.DeadlineExceeded)
		time.Sleep(10 * time.Minute) // sixty renewals
		s.alone(h)
	})
}

// A delayed forced unlock does not hit the next holder, nor who has waited, and has the lock since an earlier send of it.
func TestDelayedForceUnlockDoesNotHitTheNextHolder(t *testing.T) {
	values(t, kinds, []bool{false, true}, func(s *stage, waits bool) {
		if waits && s.Kind.Shared {
			return // nobody waits
		}
		other, _ := s.Client()
		l := s.Lock(other)
		first := s.Must(l.Lock(background))
		kit.Next(s.d, "force", late)
		forced := kit.Aside(func() error { return kit.ErrOf(s.l.ForceUnlock(background)) })
		if waits {
			l = s.rival
		} else {
			kit.OK(s.T, <-forced)
		}
		h := s.Must(l.Lock(background))
		time.Sleep(time.Second)
		s.trusts(h)
		s.WantCount("x", h.Owner(), 1)
		s.Unlock(h)
		s.Lost(first)
	})
}

// A fixed lease ends with the loss of the hold, when it was extended to at the latest, and is not renewed.
func TestFixedLeaseEndsWithLoss(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock(holdfast.FixedLease(10 * time.Second))
		start := time.Now()
		time.Sleep(5 * time.Second)
		kit.OK(s.T, h.Extend(background, time.Minute))
		kit.Took(s.T, time.Until(h.Deadline()), 59*time.Second, time.Minute, "deadline in %v")
		kit.OK(s.T, h.Extend(background, time.Second)) // never shortens
		seen := kit.Count(s.d)
		kit.Took(s.T, kit.LostAt(s.T, h, start), 64*time.Second, 65*time.Second-1, "lost after %v")
		if n := seen.Of("renew"); n > 0 && !s.Kind.Shared || n > 12 { // somebody may have shortened what is shared, but nobody prolongs it
			s.Errorf("a fixed lease was renewed: %v", seen)
		}
		kit.WantError(s.T, h.Extend(background, time.Minute), holdfast.ErrLost)
		s.Lost(h)
		kit.WantError(s.T, h.Extend(background, time.Minute), holdfast.ErrNotHeld)
	})
}

// A lease that runs out before the answer comes is no hold.
func TestLeaseShorterThanTheWay(t *testing.T) {
	kinds(t, func(s *stage) {
		kit.All(s.d, memdriver.Fault{DelayReply: 20 * time.Millisecond})
		kit.Fails(s.T, holdfast.ErrLost)(s.l.Lock(background, holdfast.FixedLease(10*time.Millisecond)))
	})
}

// A hold is lost, and the caller's context ends after that: the hold's context says why it was lost, whenever it is asked for.
func TestContextAskedForLateSaysTheLoss(t *testing.T) {
	fake(t, func(s *stage) {
		ctx, cancel := context.WithCancelCause(background)
		h := s.in(ctx)
		kit.Force(s.T, s.rival)
		time.Sleep(time.Minute)
		cancel(errors.New("later"))
		kit.WantLost(s.T, h)
		s.Lost(h)
	})
}

// Unlock of a lost hold says so at once, whatever is being reconciled.
func TestUnlockOfALostHold(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock()
		kit.Away(s.d)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.Context()), 2500*time.Millisecond)
		defer cancel()
		s.Log(kit.ErrOf(s.l.Lock(ctx))) // reconciled in the background for a while
		kit.LostAt(s.T, h, time.Now())
		start := time.Now()
		s.Lost(h)
		s.within(start, 0, 0)
		s.heals()
	}, holdfast.WithLease(3*time.Second))
}

// losses counts what OnLost is told.
func losses(n *atomic.Int32) holdfast.ClientOption {
	return holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { n.Add(1) }})
}

// OnLost is told of every loss: of one that Unlock finds, and of one at the very moment of Unlock.
func TestEveryLossIsTold(t *testing.T) {
	var told atomic.Int32
	often(t, kinds, 50, func(s *stage, i int) {
		told.Store(0) // no other world goes on meanwhile
		h := s.lock(holdfast.FixedLease(time.Second))
		if i == 0 {
			s.Wipe()
		} else {
			time.Sleep(time.Until(h.Deadline()))
		}
		lost := errors.Is(h.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
		if lost != (told.Load() == 1) || told.Load() > 1 || i == 0 && !lost {
			s.Errorf("Unlock says that it was lost: %v, and %d losses were told", lost, told.Load())
		}
	}, losses(&told))
}
