package test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Loss is told before the key can expire, and only then.

// silent loses everything from now on.
func silent(d *memdriver.Driver, f memdriver.Fault) {
	d.SetFaults(func(driver.Call) memdriver.Fault { return f })
}

func TestUnansweredRenewalsAreToldBeforeTheKeyExpires(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"requests lost": {LoseRequest: true},
		"replies lost":  {LoseReply: true},
		"refused":       {Refuse: errors.New("connection refused")},
		"delayed":       {DelayRequest: 3 * time.Second},
	} {
		for _, lease := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, 10 * time.Minute} {
			t.Run(name+"/"+lease.String(), func(t *testing.T) {
				fakeKinds(t, func(t *testing.T, w *world) {
					if lease > holdfast.DefaultLease && w.kind != mutexKind {
						return // hundreds of renewals, which the others do not make differently
					}
					c, d := w.client(holdfast.WithLease(lease))
					h := must(t)(w.lock(c).Lock(background))
					silent(d, fault)
					if name == "delayed" && lease <= time.Second {
						silent(d, memdriver.Fault{DelayRequest: 2 * lease})
					}
					start := time.Now()
					took := lostAt(t, h, start)
					if left := w.lives(h.Owner()); left <= 0 {
						t.Errorf("the key had expired when the loss was told after %v", took)
					}
					other, _ := w.client()
					_, err := w.rival(other).TryLock(background)
					wantError(t, err, holdfast.ErrLocked)
					if trusted := lease * 98 / 100; took < trusted-3*time.Millisecond {
						t.Errorf("lost after %v, with the key good for %v", took, lease)
					}
					d.SetFaults(nil)
					if deadline := h.Deadline().Sub(start); deadline != took {
						t.Errorf("deadline after %v, lost after %v", deadline, took)
					}
					err = h.Unlock()
					wantError(t, err, holdfast.ErrLost, holdfast.ErrNotHeld)
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
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		h := must(t)(w.lock(c).Lock(background))
		start := time.Now()
		silent(d, memdriver.Fault{DelayRequest: 25 * time.Second})
		lostAt(t, h, start)
		other, _ := w.client()
		unlock(t, must(t)(w.rival(other).Lock(background)))
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("the next owner got it after %v", took)
		}
		d.SetFaults(nil)
		wantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestDeletedKeyIsNoticedAtTheNextRenewal(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := must(t)(w.lock(c).Lock(background))
		time.Sleep(5 * time.Second)
		w.wipe()
		if took := lostAt(t, h, time.Now()); took > 10*time.Second { // a third of the lease
			t.Errorf("noticed after %v", took)
		}
		wantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestForcedUnlockIsToldAtOnce(t *testing.T) {
	forKinds(t, func(t *testing.T, k *kind) {
		for _, fixed := range []bool{false, true} {
			fakeKind(t, k, func(t *testing.T, w *world) {
				c, _ := w.client()
				var options []holdfast.LockOption
				if fixed {
					options = append(options, holdfast.FixedLease(time.Hour))
				}
				h := must(t)(w.lock(c).Lock(background, options...))
				time.Sleep(1100 * time.Millisecond)
				operator, _ := w.client()
				start := time.Now()
				was, err := w.lock(operator).ForceUnlock(background)
				if err != nil || !was {
					t.Fatalf("ForceUnlock: %v, %v", was, err)
				}
				bound := 100 * time.Millisecond
				switch { // who polls does not listen either
				case k.polls && fixed:
					bound = time.Hour
				case k.polls:
					bound = 10 * time.Second
				}
				if took := lostAt(t, h, start); took > bound {
					t.Errorf("fixed %v: told after %v", fixed, took)
				}
				was, err = w.lock(operator).ForceUnlock(background)
				if err != nil || was {
					t.Errorf("ForceUnlock of a free lock: %v, %v", was, err)
				}
				wantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
			})
		}
	})
}

// S5: what a forced unlock does not delete goes on being renewed.
func TestForcedUnlockThatFailsLeavesTheHold(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		h := must(t)(w.lock(c).Lock(background))
		once(d, "force", memdriver.Fault{LoseRequest: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := w.lock(c).ForceUnlock(ctx)
		wantError(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.wantCount("x", h.Owner(), 1)
		unlock(t, h)
	})
}

func TestFixedLeaseEndsWithLoss(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		seen := count(d)
		start := time.Now()
		h := must(t)(w.lock(c).Lock(background, holdfast.FixedLease(time.Minute)))
		took := lostAt(t, h, start)
		if took >= time.Minute || took < 59*time.Second {
			t.Errorf("lost after %v", took)
		}
		calls := 1 // to check, once it listens for a forced unlock
		if w.kind.shared() {
			calls += 11 // somebody may have shortened it, but nobody prolongs it
		}
		if seen.of("renew") > calls {
			t.Errorf("a fixed lease was renewed: %v", seen.n)
		}
		wantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestExtendMovesTheDeadline(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := must(t)(w.lock(c).Lock(background, holdfast.FixedLease(10*time.Second)))
		start := time.Now()
		time.Sleep(5 * time.Second)
		if err := h.Extend(background, time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(h.Deadline()); left > time.Minute || left < 59*time.Second {
			t.Errorf("deadline in %v", left)
		}
		if err := h.Extend(background, time.Second); err != nil { // never shortens
			t.Fatal(err)
		}
		if took := lostAt(t, h, start); took < 64*time.Second || took > 65*time.Second {
			t.Errorf("lost after %v", took)
		}
		wantError(t, h.Extend(background, time.Minute), holdfast.ErrLost)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		wantError(t, h.Extend(background, time.Minute), holdfast.ErrNotHeld)
	})
}

func TestMaxHoldEndsRenewal(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client(holdfast.WithMaxHold(2 * time.Minute))
		start := time.Now()
		h := must(t)(w.lock(c).Lock(background))
		took := lostAt(t, h, start)
		if took > 2*time.Minute || took < 118*time.Second {
			t.Errorf("lost after %v", took)
		}
		wantError(t, h.Unlock(), holdfast.ErrLost)
		_, err := w.lock(c).Lock(background, holdfast.FixedLease(3*time.Minute))
		wantError(t, err, holdfast.ErrInvalid)
	})
}

// A proper unlock is never told as a loss.
func TestUnlockIsNoLoss(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		lost := 0
		c, _ := w.client(holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { lost++ }}))
		for range 100 {
			h := must(t)(w.lock(c).Lock(background))
			time.Sleep(1234 * time.Millisecond)
			unlock(t, h)
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
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		mu := w.lock(c)
		h := must(t)(mu.Lock(background, holdfast.FixedLease(5*time.Second)))
		lostAt(t, h, time.Now())
		time.Sleep(time.Second)
		next := must(t)(mu.Lock(background))
		if ttl := w.lives(next.Owner()); ttl != 30*time.Second {
			t.Errorf("a watchdog hold after a short lease lives %v", ttl)
		}
		wantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.wantCount("x", next.Owner(), 1)
		unlock(t, next)
	})
}

// S1: a partial unlock leaves the outer hold what it was promised.
func TestS1_PartialUnlockKeepsTheLease(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		outer := must(t)(w.lock(c).Lock(background, holdfast.FixedLease(time.Hour)))
		inner := must(t)(w.lock(c).Lock(outer.Context(), holdfast.FixedLease(time.Hour)))
		unlock(t, inner)
		if ttl := w.lives(outer.Owner()); ttl != time.Hour {
			t.Errorf("TTL %v after a partial unlock", ttl)
		}
		unlock(t, outer)
	})
}

// S6: an inner fixed lease does not end the renewal of the outer hold.
func TestS6_MixedLeases(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		mu := w.lock(c)
		outer := must(t)(mu.Lock(background))
		inner := must(t)(mu.Lock(outer.Context(), holdfast.FixedLease(time.Minute)))
		unlock(t, inner)
		time.Sleep(10 * time.Minute) // sixty renewals
		w.wantCount("x", outer.Owner(), 1)
		unlock(t, outer)

		// And the other way round: the watchdog stops with the hold it renewed for.
		outer = must(t)(mu.Lock(background, holdfast.FixedLease(time.Minute)))
		start := time.Now()
		inner = must(t)(mu.Lock(outer.Context()))
		time.Sleep(2 * time.Minute)
		unlock(t, inner)
		if took := lostAt(t, outer, start); took > 151*time.Second {
			t.Errorf("the outer hold lasted %v", took)
		}
		wantError(t, outer.Unlock(), holdfast.ErrLost)
	})
}

// S7: a nested hold with a shorter lease does not shorten the outer one's.
func TestS7_NestedLeaseDoesNotShorten(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		outer := must(t)(w.lock(c).Lock(background, holdfast.FixedLease(time.Hour)))
		inner := must(t)(w.lock(c).Lock(outer.Context(), holdfast.FixedLease(time.Second)))
		if ttl := w.lives(outer.Owner()); ttl != time.Hour {
			t.Errorf("TTL %v after a nested hold", ttl)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := outer.Context().Err(); err != nil {
			t.Error(context.Cause(outer.Context()))
		}
		unlock(t, inner)
		unlock(t, outer)
	})
}

// A nested hold whose outer hold is gone is not granted in silence.
func TestNestedIntoNothingIsLost(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		outer := must(t)(w.lock(c).Lock(background))
		w.wipe()
		_, err := w.lock(c).Lock(outer.Context())
		wantError(t, err, holdfast.ErrLost)
		if cause := context.Cause(outer.Context()); !errors.Is(cause, holdfast.ErrLost) {
			t.Errorf("the outer hold's cause: %v", cause)
		}
		_, err = w.lock(c).Lock(holdfast.WithOwner(background, outer.Owner()))
		wantError(t, err, holdfast.ErrLost)
		wantError(t, outer.Unlock(), holdfast.ErrLost)
		// With nothing of the old left, the owner starts anew.
		unlock(t, must(t)(w.lock(c).Lock(holdfast.WithOwner(background, outer.Owner()))))
	})
}

// A lease that runs out before the answer comes is no hold.
func TestLeaseShorterThanTheWay(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		silent(d, memdriver.Fault{DelayReply: 20 * time.Millisecond})
		_, err := w.lock(c).Lock(background, holdfast.FixedLease(10*time.Millisecond))
		wantError(t, err, holdfast.ErrLost)
	})
}

// A hold is lost, and the caller's context ends after that: the hold's context says why it was lost, whenever it is asked for.
func TestContextAskedForLateSaysTheLoss(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		ctx, cancel := context.WithCancelCause(background)
		h := must(t)(c.NewMutex("x").Lock(ctx))
		if _, err := other.NewMutex("x").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel(errors.New("later"))
		wantLost(t, h)
		_ = h.Unlock()
	})
}
