package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A lease of its own is renewed in place of the client's, and is how long the lock of a
// crashed holder blocks others.
func TestRenewedLease(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock(holdfast.RenewedLease(6 * time.Second))
		time.Sleep(2 * time.Minute) // twenty leases
		s.trusts(h)
		kit.Away(s.d)
		crashed := time.Now()
		s.Unlock(s.heldByOther())
		s.within(crashed, 3*time.Second, 6*time.Second+50*time.Millisecond)
		kit.WantLost(s.T, h)
		s.d.SetFaults(nil)
		s.Lost(h)
	})
}

// S2: a lease that ran out on one hold does not shorten the next one, and no
// hold's lease depends on what others asked for.
func TestS2_LeasesDoNotLeakBetweenHolds(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock(holdfast.FixedLease(5 * time.Second))
		kit.LostAt(s.T, h, time.Now())
		time.Sleep(time.Second)
		next := s.lock()
		if ttl := s.Lives(next.Owner()); ttl != 30*time.Second {
			s.Errorf("a watchdog hold after a short lease lives %v", ttl)
		}
		s.Lost(h)
		time.Sleep(10 * time.Minute) // sixty renewals
		s.alone(next)
	})
}

// S1, S7: a nested hold with another lease does not change what the outer one was promised, and giving it back does not either.
func TestS1_S7_NestedLeaseDoesNotShorten(t *testing.T) {
	values(t, nesting, []time.Duration{time.Hour, time.Second}, func(s *stage, lease time.Duration) {
		outer := s.lock(holdfast.FixedLease(time.Hour))
		inner := s.in(outer.Context(), holdfast.FixedLease(lease))
		if got := s.Lives(outer.Owner()); got != time.Hour {
			s.Errorf("TTL %v after a nested hold", got)
		}
		time.Sleep(time.Minute)
		s.Unlock(inner)
		if got := s.Lives(outer.Owner()); got != 59*time.Minute {
			s.Errorf("TTL %v after a partial unlock", got)
		}
		s.alone(outer)
	})
}

// S6: an inner fixed lease does not end the renewal of the outer hold.
func TestS6_MixedLeases(t *testing.T) {
	nesting(t, func(s *stage) {
		outer := s.lock()
		s.Unlock(s.in(outer.Context(), holdfast.FixedLease(time.Minute)))
		time.Sleep(10 * time.Minute) // sixty renewals
		s.alone(outer)

		// And the other way round: the watchdog stops with the hold it renewed for.
		outer = s.lock(holdfast.FixedLease(time.Minute))
		start := time.Now()
		inner := s.in(outer.Context())
		time.Sleep(2 * time.Minute)
		s.Unlock(inner)
		kit.Took(s.T, kit.LostAt(s.T, outer, start), 0, 151*time.Second, "the outer hold lasted %v")
		s.Lost(outer)
	})
}

// Of an owner's holds, the longest of the leases that are renewed is.
func TestRenewedLeasesNested(t *testing.T) {
	nesting(t, func(s *stage) {
		outer := s.lock(holdfast.RenewedLease(5 * time.Second))
		inner := s.in(outer.Context(), holdfast.RenewedLease(time.Minute))
		time.Sleep(5 * time.Minute)
		kit.Took(s.T, time.Until(outer.Deadline()), 30*time.Second, time.Minute, "%v left beside a lease of a minute")
		s.Unlock(inner)
		time.Sleep(5 * time.Minute)
		kit.Took(s.T, time.Until(outer.Deadline()), 2*time.Second, 5*time.Second, "%v left of a lease of 5 s")
		s.Unlock(outer)
	})
}

// Leases that change again and again do not put off a renewal that is due.
func TestChangingLeasesAreRenewed(t *testing.T) {
	nesting(t, func(s *stage) {
		var holds []*holdfast.Hold
		for i := range 10 {
			holds = append(holds, s.in(s.ctx, holdfast.RenewedLease(3*time.Second-time.Duration(i)*100*time.Millisecond)))
		}
		for _, h := range holds {
			time.Sleep(600 * time.Millisecond)
			s.trusts(h)
			s.Unlock(h)
		}
	})
}

// A nested hold whose outer hold is gone is not granted in silence.
func TestNestedIntoNothingIsLost(t *testing.T) {
	values(t, nesting, []bool{false, true}, func(s *stage, byOwner bool) {
		outer := s.lock()
		ctx := outer.Context()
		if byOwner {
			ctx = holdfast.WithOwner(background, outer.Owner())
		}
		s.Wipe()
		kit.Fails(s.T, holdfast.ErrLost)(s.l.Lock(ctx))
		kit.WantError(s.T, context.Cause(outer.Context()), holdfast.ErrLost)
		s.Lost(outer)
		s.Unlock(s.in(holdfast.WithOwner(background, outer.Owner()))) // with nothing of the old left, the owner starts anew
	})
}

// WithMaxHold ends a hold, whatever its lease, and that is told as such.
func TestMaxHoldEndsRenewal(t *testing.T) {
	values(t, kinds, []time.Duration{holdfast.DefaultLease, time.Minute, time.Hour}, func(s *stage, lease time.Duration) {
		start := time.Now()
		h := s.lock(holdfast.RenewedLease(lease))
		kit.Took(s.T, kit.LostAt(s.T, h, start), 118*time.Second, 2*time.Minute, "lost after %v")
		var lost *holdfast.LostError
		if err := context.Cause(h.Context()); !errors.As(err, &lost) || lost.Reason != holdfast.LostMaxHoldOver {
			s.Error(err)
		}
		s.Lost(h)
		kit.Fails(s.T, holdfast.ErrInvalid)(s.l.Lock(background, holdfast.FixedLease(3*time.Minute)))
	}, holdfast.WithMaxHold(2*time.Minute))
}

// Nested holds do not stretch WithMaxHold, nor does Extend on one, nor are they promised more than it leaves.
func TestNestedHoldsKeepToMaxHold(t *testing.T) {
	rows(t, nesting, map[string]func(s *stage, outer *holdfast.Hold){
		"again and again": func(s *stage, outer *holdfast.Hold) {
			for range 60 {
				inner, err := s.l.Lock(outer.Context())
				if err != nil {
					return
				}
				time.Sleep(10 * time.Second)
				if inner.Unlock() != nil {
					return
				}
			}
		},
		"extended": func(s *stage, outer *holdfast.Hold) {
			time.Sleep(50 * time.Second)
			inner := s.in(outer.Context(), holdfast.FixedLease(10*time.Millisecond))
			_ = inner.Extend(background, 59*time.Second) // or it is refused
		},
		"kept": func(s *stage, outer *holdfast.Hold) {
			time.Sleep(50 * time.Second)
			kit.Fails(s.T, holdfast.ErrInvalid)(s.l.Lock(outer.Context(), holdfast.MinHold(40*time.Second)))
		},
	}, func(s *stage, nest func(s *stage, outer *holdfast.Hold)) {
		start := time.Now()
		outer := s.lock()
		nest(s, outer)
		kit.Took(s.T, kit.LostAt(s.T, outer, start), 0, 61*time.Second, "lost after %v")
		s.Lost(outer)
	}, holdfast.WithMaxHold(time.Minute))
}

// A grant that too few replicas have acknowledged is given back: a nested one, and the outer one stays; that of one who has waited, and
// the next one is told.
func TestUnacknowledgedGrantIsGivenBack(t *testing.T) {
	kinds(t, func(s *stage) {
		if s.Kind.Nests() {
			s.Server.SetReplicas(2)
			outer := s.lock()
			s.Server.SetReplicas(1)
			kit.Fails(s.T, holdfast.ErrNotReplicated)(s.l.Lock(outer.Context()))
			time.Sleep(time.Minute)
			s.alone(outer)
		}
		s.Server.SetReplicas(1)
		h := s.heldByOther()
		failed := s.begin(background)
		time.Sleep(time.Second)
		s.Unlock(h)
		kit.WantError(s.T, (<-failed).Err, holdfast.ErrNotReplicated)
		start := time.Now()
		s.Unlock(s.heldByOther())
		s.within(start, 0, 200*time.Millisecond)
	}, holdfast.WithReplicaAck(2, time.Second))
}

// It is given back also if Redis is away for longer than the client's lease, but not for as long as that of the call.
func TestUntrustedGrantOfALongLeaseIsGivenBack(t *testing.T) {
	kinds(t, func(s *stage) {
		kit.Every(s.d, "release", memdriver.Fault{LoseRequest: true})
		kit.Fails(s.T, holdfast.ErrNotReplicated)(s.l.TryLock(background, holdfast.FixedLease(10*time.Minute)))
		time.Sleep(2 * time.Minute)
		s.d.SetFaults(nil)
		time.Sleep(30 * time.Second)
		s.free()
	}, holdfast.WithReplicaAck(1, 100*time.Millisecond))
}

// Several locks are inspected at once.
func TestInspectSeveral(t *testing.T) {
	fake(t, func(s *stage) {
		m := holdfast.NewMultiLock(kit.Mutexes(s.c, "a", "b")...)
		state := func() holdfast.State {
			s.Helper()
			found, err := m.Inspect(background)
			if err != nil || found.Name != "a+b" || len(found.Parts) != 2 || found.Parts[1].Name != "b" {
				s.Fatalf("%+v, %v", found, err)
			}
			return found
		}
		if state().Locked() {
			s.Error("locked, but free")
		}
		one := s.Must(s.c.NewMutex("a").Lock(background))
		if found := state(); found.Locked() || found.HeldBy(one.Owner()) || !found.Parts[0].HeldBy(one.Owner()) || found.TTL != 0 {
			s.Errorf("%+v: one part is held", found)
		}
		s.Unlock(one)
		h := s.Must(m.Lock(background))
		if found := state(); !found.Locked() || !found.HeldBy(h.Owner()) || found.Count(h.Owner()) != 1 || found.TTL != 30*time.Second {
			s.Errorf("%+v: all parts are held", found)
		}
		s.Unlock(h)
		foreign := struct{ holdfast.Locker }{s.c.NewMutex("b")} // a lock from elsewhere
		kit.WantError(s.T, kit.ErrOf(holdfast.NewMultiLock(s.c.NewMutex("a"), foreign).Inspect(background)), holdfast.ErrInvalid)

		red := kit.Several(s.World, 5).Redlock("x")
		h = s.Must(red.Lock(background))
		time.Sleep(time.Second)
		found, err := red.Inspect(background)
		if err != nil || !found.Locked() || len(found.Parts) != 5 || found.TTL <= 0 {
			s.Errorf("%+v, %v", found, err)
		}
		s.Unlock(h)
	})
}

// A hold is printed in words, whatever it is of.
func TestHoldIsPrinted(t *testing.T) {
	fake(t, func(s *stage) {
		want := func(h *holdfast.Hold, want string) {
			s.Helper()
			if got := fmt.Sprint(h); got != want {
				s.Errorf("%s, want %s", got, want)
			}
		}
		x, y := s.c.NewMutex("x\n"), s.c.NewRWMutex("{x\n}2")
		h := s.Must(x.Lock(background))
		owner := h.Owner().String()
		want(h, `mutex "x\n", held by `+owner)
		if !strings.HasPrefix(owner, s.c.ID()+":") {
			s.Errorf("owner %q of client %q", owner, s.c.ID())
		}
		kit.Force(s.T, x)
		<-h.Context().Done()
		want(h, `mutex "x\n", lost by `+owner)
		both := holdfast.NewMultiLock(x, y)
		h = s.Must(both.Lock(background))
		want(h, fmt.Sprintf("multi %q, held by %v", both.Name(), h.Owner()))
		want(h.Parts()[1], `write "{x\n}2", held by `+h.Owner().String())
		s.Unlock(h)
		want(h, fmt.Sprintf("multi %q, given up by %v", both.Name(), h.Owner()))
		h = s.Must(y.RLock(background))
		detached, err := h.Detach()
		kit.OK(s.T, err)
		want(h, `read "{x\n}2", given up by `+detached.String())
		s.Unlock(s.Must(y.RLocker().Adopt(background, detached)))
	})
}

// TestAHoldThatWasWaitedForIsAsGoodAsAnother 20 ms after it began: its deadline is that of its lease, and it survives what others survive.
// Its request is so young that the age of the hold, and not a third of the grant, decides when it is renewed.
func TestAHoldThatWasWaitedForIsAsGoodAsAnother(t *testing.T) {
	kinds(t, func(s *stage) {
		held := s.heldByOther()
		got := s.begin(background)
		time.Sleep(500 * time.Millisecond)
		s.Unlock(held)
		s.wholeAfterAMoment((<-got).Hold)
	})
	fake(t, func(s *stage) {
		other, _ := s.Client()
		held := s.Must(other.NewPermitSemaphore("s", holdfast.Permits(1)).Lock(background))
		got := kit.Begin(func() (*holdfast.Hold, error) { return s.c.NewPermitSemaphore("s").Lock(background) })
		time.Sleep(500 * time.Millisecond)
		s.Unlock(held)
		s.wholeAfterAMoment((<-got).Hold)
		s.Do("FLUSHALL")
	})
}

func (s *stage) wholeAfterAMoment(h *holdfast.Hold) {
	s.Helper()
	time.Sleep(20 * time.Millisecond)
	if left := time.Until(h.Deadline()); left < 29*time.Second {
		s.Errorf("%v, of a lease of 30 s, is left 20 ms after it was acquired", left)
	}
	kit.Away(s.d)
	time.Sleep(8 * time.Second)
	s.trusts(h)
	s.heals()
	s.Unlock(h)
}
