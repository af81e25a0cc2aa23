package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Loss is told before the key can expire, and only then.

func TestUnansweredRenewalsAreToldBeforeTheKeyExpires(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"requests lost": {LoseRequest: true},
		"replies lost":  {LoseReply: true},
		"refused":       {Refuse: errors.New("connection refused")},
		"delayed":       {DelayRequest: 3 * time.Second},
	} {
		for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, 10 * time.Minute} {
			t.Run(name+"/"+lease.String(), func(t *testing.T) {
				kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
					if lease > holdfast.DefaultLease && w.Kind != kit.MutexKind {
						return // hundreds of renewals, which the others do not make differently
					}
					c, d := w.Client(holdfast.WithLease(lease))
					h := kit.Must(t)(w.Lock(c).Lock(background))
					kit.Silent(d, fault)
					if name == "delayed" && lease <= time.Second {
						kit.Silent(d, memdriver.Fault{DelayRequest: 2 * lease})
					}
					start := time.Now()
					took := kit.LostAt(t, h, start)
					if left := w.Lives(h.Owner()); left <= 0 {
						t.Errorf("the key had expired when the loss was told after %v", took)
					}
					other, _ := w.Client()
					kit.Fails(t, holdfast.ErrLocked)(w.Rival(other).TryLock(background))
					if trusted := lease * 98 / 100; took < trusted-3*time.Millisecond {
						t.Errorf("lost after %v, with the key good for %v", took, lease)
					}
					d.SetFaults(nil)
					if deadline := h.Deadline().Sub(start); deadline != took {
						t.Errorf("deadline after %v, lost after %v", deadline, took)
					}
					err := h.Unlock()
					kit.WantError(t, err, holdfast.ErrLost, holdfast.ErrNotHeld)
					var lost *holdfast.LostError
					if !errors.As(err, &lost) || lost.Name != "x" || lost.Reason == "" {
						t.Errorf("Unlock: %#v", err)
					}
				})
			})
		}
	}
}

// A renewal that arrives after its holder lost trust does not keep the lock.
func TestLateRenewalsDoNotOutliveTrust(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		start := time.Now()
		kit.Silent(d, memdriver.Fault{DelayRequest: 25 * time.Second})
		kit.LostAt(t, h, start)
		other, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(w.Rival(other).Lock(background)))
		kit.Took(t, time.Since(start), 0, 31*time.Second, "the next owner got it after %v")
		d.SetFaults(nil)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestDeletedKeyIsNoticedAtTheNextRenewal(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		time.Sleep(5 * time.Second)
		w.Wipe()
		if took := kit.LostAt(t, h, time.Now()); took > 10*time.Second { // a third of the lease
			t.Errorf("noticed after %v", took)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestForcedUnlockIsToldAtOnce(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for _, fixed := range []bool{false, true} {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				var options []holdfast.LockOption
				if fixed {
					options = append(options, holdfast.FixedLease(time.Hour))
				}
				h := kit.Must(t)(w.Lock(c).Lock(background, options...))
				time.Sleep(1100 * time.Millisecond)
				operator, _ := w.Client()
				start := time.Now()
				was, err := w.Lock(operator).ForceUnlock(background)
				if err != nil || !was {
					t.Fatalf("ForceUnlock: %v, %v", was, err)
				}
				bound := 100 * time.Millisecond
				switch { // who polls does not listen either
				case k.Polls && fixed:
					bound = time.Hour
				case k.Polls:
					bound = 10 * time.Second
				}
				if took := kit.LostAt(t, h, start); took > bound {
					t.Errorf("fixed %v: told after %v", fixed, took)
				}
				was, err = w.Lock(operator).ForceUnlock(background)
				if err != nil || was {
					t.Errorf("ForceUnlock of a free lock: %v, %v", was, err)
				}
				kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
			})
		}
	})
}

// S5: what a forced unlock does not delete goes on being renewed.
func TestForcedUnlockThatFailsLeavesTheHold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		kit.Once(d, "force", memdriver.Fault{LoseRequest: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := w.Lock(c).ForceUnlock(ctx)
		kit.WantError(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.WantCount("x", h.Owner(), 1)
		kit.Unlock(t, h)
	})
}

func TestFixedLeaseEndsWithLoss(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		start := time.Now()
		h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Minute)))
		took := kit.LostAt(t, h, start)
		if took >= time.Minute || took < 59*time.Second {
			t.Errorf("lost after %v", took)
		}
		calls := 1 // to check, once it listens for a forced unlock
		if w.Kind.Shared() {
			calls += 11 // somebody may have shortened it, but nobody prolongs it
		}
		if seen.Of("renew") > calls {
			t.Errorf("a fixed lease was renewed: %v", seen)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestExtendMovesTheDeadline(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(10*time.Second)))
		start := time.Now()
		time.Sleep(5 * time.Second)
		kit.OK(t, h.Extend(background, time.Minute))
		if left := time.Until(h.Deadline()); left > time.Minute || left < 59*time.Second {
			t.Errorf("deadline in %v", left)
		}
		if err := h.Extend(background, time.Second); err != nil { // never shortens
			t.Fatal(err)
		}
		kit.Took(t, kit.LostAt(t, h, start), 64*time.Second, 65*time.Second, "lost after %v")
		kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrLost)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrNotHeld)
	})
}

// WithMaxHold ends a hold, whatever its lease, and that is told as such.
func TestMaxHoldEndsRenewal(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		for _, lease := range []time.Duration{holdfast.DefaultLease, time.Minute, time.Hour} {
			c, _ := w.Client(holdfast.WithMaxHold(2 * time.Minute))
			start := time.Now()
			h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.RenewedLease(lease)))
			kit.Took(t, kit.LostAt(t, h, start), 118*time.Second, 2*time.Minute, "lost after %v")
			var lost *holdfast.LostError
			if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != holdfast.LostMaxHoldOver {
				t.Error(context.Cause(h.Context()))
			}
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).Lock(background, holdfast.FixedLease(3*time.Minute)))
		}
	})
}

// A proper unlock is never told as a loss.
func TestUnlockIsNoLoss(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		lost := 0
		c, _ := w.Client(holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { lost++ }}))
		for range 100 {
			h := kit.Must(t)(w.Lock(c).Lock(background))
			time.Sleep(1234 * time.Millisecond)
			kit.Unlock(t, h)
			if cause := context.Cause(h.Context()); !errors.Is(cause, context.Canceled) {
				t.Fatalf("cause after Unlock: %v", cause)
			}
		}
		time.Sleep(time.Hour)
		if lost != 0 {
			t.Errorf("%d losses told", lost)
		}
	})
}

// S2: a lease that ran out on one hold does not shorten the next one, and no
// hold's lease depends on what others asked for.
func TestS2_LeasesDoNotLeakBetweenHolds(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		mu := w.Lock(c)
		h := kit.Must(t)(mu.Lock(background, holdfast.FixedLease(5*time.Second)))
		kit.LostAt(t, h, time.Now())
		time.Sleep(time.Second)
		next := kit.Must(t)(mu.Lock(background))
		if ttl := w.Lives(next.Owner()); ttl != 30*time.Second {
			t.Errorf("a watchdog hold after a short lease lives %v", ttl)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.WantCount("x", next.Owner(), 1)
		kit.Unlock(t, next)
	})
}

// S1, S7: a nested hold with another lease does not change what the outer one was promised, and giving it back does not either.
func TestS1_S7_NestedLeaseDoesNotShorten(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		for _, lease := range []time.Duration{time.Hour, time.Second} {
			c, _ := w.Client()
			outer := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Hour)))
			wantLives := func(what string, want time.Duration) {
				t.Helper()
				if got := w.Lives(outer.Owner()); got != want {
					t.Errorf("TTL %v %s", got, what)
				}
			}
			inner := kit.Must(t)(w.Lock(c).Lock(outer.Context(), holdfast.FixedLease(lease)))
			wantLives("after a nested hold", time.Hour)
			time.Sleep(time.Minute)
			kit.Unlock(t, inner)
			wantLives("after a partial unlock", 59*time.Minute)
			if err := outer.Context().Err(); err != nil {
				t.Error(context.Cause(outer.Context()))
			}
			kit.Unlock(t, outer)
		}
	})
}

// S6: an inner fixed lease does not end the renewal of the outer hold.
func TestS6_MixedLeases(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		mu := w.Lock(c)
		outer := kit.Must(t)(mu.Lock(background))
		inner := kit.Must(t)(mu.Lock(outer.Context(), holdfast.FixedLease(time.Minute)))
		kit.Unlock(t, inner)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.WantCount("x", outer.Owner(), 1)
		kit.Unlock(t, outer)

		// And the other way round: the watchdog stops with the hold it renewed for.
		outer = kit.Must(t)(mu.Lock(background, holdfast.FixedLease(time.Minute)))
		start := time.Now()
		inner = kit.Must(t)(mu.Lock(outer.Context()))
		time.Sleep(2 * time.Minute)
		kit.Unlock(t, inner)
		kit.Took(t, kit.LostAt(t, outer, start), 0, 151*time.Second, "the outer hold lasted %v")
		kit.WantError(t, outer.Unlock(), holdfast.ErrLost)
	})
}

// A nested hold whose outer hold is gone is not granted in silence.
func TestNestedIntoNothingIsLost(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		w.Wipe()
		kit.Fails(t, holdfast.ErrLost)(w.Lock(c).Lock(outer.Context()))
		if cause := context.Cause(outer.Context()); !errors.Is(cause, holdfast.ErrLost) {
			t.Errorf("the outer hold's cause: %v", cause)
		}
		kit.Fails(t, holdfast.ErrLost)(w.Lock(c).Lock(holdfast.WithOwner(background, outer.Owner())))
		kit.WantError(t, outer.Unlock(), holdfast.ErrLost)
		// With nothing of the old left, the owner starts anew.
		kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(holdfast.WithOwner(background, outer.Owner()))))
	})
}

// A lease that runs out before the answer comes is no hold.
func TestLeaseShorterThanTheWay(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{DelayReply: 20 * time.Millisecond})
		kit.Fails(t, holdfast.ErrLost)(w.Lock(c).Lock(background, holdfast.FixedLease(10*time.Millisecond)))
	})
}

// A hold is lost, and the caller's context ends after that: the hold's context says why it was lost, whenever it is asked for.
func TestContextAskedForLateSaysTheLoss(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		ctx, cancel := context.WithCancelCause(background)
		h := kit.Must(t)(c.NewMutex("x").Lock(ctx))
		if _, err := other.NewMutex("x").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel(errors.New("later"))
		kit.WantLost(t, h)
		_ = h.Unlock()
	})
}
