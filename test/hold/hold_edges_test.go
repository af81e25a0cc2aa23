package hold

import (
	"context"
	"errors"
	"fmt"
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

// Extend's delayed answer is not about the owner's next hold: it does not move its deadline, and "not held" does not lose it.
func TestLateExtendAnswerIsNotTheNextHolds(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		for _, extended := range []bool{true, false} {
			c, d := w.Client()
			mu := w.Lock(c)
			ctx := holdfast.WithOwner(background, c.NewOwner())
			h1 := kit.Must(t)(mu.Lock(ctx))
			renew := memdriver.Fault{DelayReply: 100 * time.Millisecond}
			if !extended {
				renew.DelayRequest = 15 * time.Millisecond // so it comes behind the release
			}
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				return map[string]memdriver.Fault{"renew": renew, "release": {DelayReply: 20 * time.Millisecond}}[call.Script.Name()]
			})
			var wg sync.WaitGroup
			wg.Go(func() { _ = h1.Extend(background, time.Hour) })
			time.Sleep(10 * time.Millisecond)
			wg.Go(func() { kit.Unlock(t, h1) })
			time.Sleep(10 * time.Millisecond)
			if !extended {
				h2 := kit.Must(t)(mu.Lock(ctx))
				wg.Wait()
				if h2.Context().Err() != nil {
					t.Errorf("h2 lost: %v", context.Cause(h2.Context()))
				}
				_ = h2.Unlock()
				continue
			}
			h2 := kit.Must(t)(mu.Lock(ctx, holdfast.FixedLease(500*time.Millisecond)))
			wg.Wait()
			other, _ := w.Client()
			h3 := kit.Must(t)(w.Rival(other).Lock(background))
			if h2.Context().Err() == nil {
				t.Errorf("two holders: %v and %v", h2.Owner(), h3.Owner())
			}
			kit.Unlock(t, h3)
			_ = h2.Unlock()
		}
	})
}

// heldAlone checks that the owner has the lock once, and nobody else beside it, and gives it back.
func heldAlone(t *testing.T, w *kit.World, h *holdfast.Hold) {
	t.Helper()
	w.WantCount("x", h.Owner(), 1)
	other, _ := w.Client()
	if beside, err := w.Rival(other).TryLock(background); err == nil {
		if h.Context().Err() == nil {
			t.Errorf("two holders: %v and %v", h.Owner(), beside.Owner())
		}
		kit.Unlock(t, beside)
	}
	_ = h.Unlock()
}

// A release of the background's that was held up does not hit the next hold.
func TestLateBackgroundReleaseDoesNotHitTheNextHold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		mu := w.Lock(c)
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h1 := kit.Must(t)(mu.Lock(ctx))
		lost := memdriver.Fault{LoseRequest: true}
		// Unlock's three sends are lost; of the background's, the first is delayed.
		kit.Nth(d, "release", lost, lost, lost, memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		if err := h1.Unlock(); err == nil {
			t.Fatal("no error")
		}
		h2 := kit.Must(t)(mu.Lock(ctx))
		time.Sleep(time.Second)
		heldAlone(t, w, h2)
	})
}

// One way is slower than the other, so the guess of the server's clock is off:
// that is known, and what was given up is waited for so much longer.
func TestAsymmetricDelay(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		mu := w.Lock(c)
		ctx := holdfast.WithOwner(background, c.NewOwner())
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
		h1 := kit.Must(t)(mu.Lock(ctx)) // the guess is now 950 ms ahead
		kit.Once(d, "release", memdriver.Fault{DelayRequest: 3100 * time.Millisecond})
		kit.Unlock(t, h1)
		d.SetFaults(nil)
		h2 := kit.Must(t)(mu.Lock(ctx))
		time.Sleep(2 * time.Second)
		heldAlone(t, w, h2)
	})
}

// A key that is no lock any more ends no other hold of its batch.
func TestOneBadKeyEndsNoOther(t *testing.T) {
	for _, bad := range []string{"string", "field"} {
		t.Run(bad, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				good := kit.Must(t)(c.NewMutex("good").Lock(background))
				evil := kit.Must(t)(c.NewMutex("evil").Lock(background))
				last := kit.Must(t)(c.NewMutex("last").Lock(background))
				if bad == "string" {
					w.Do("DEL", "evil")
					w.Do("SET", "evil", "something else")
				} else {
					w.Do("HSET", "evil", evil.Owner().String(), "junk")
				}
				time.Sleep(2 * time.Minute)
				for _, h := range []*holdfast.Hold{good, last} {
					if h.Context().Err() != nil {
						t.Errorf("%s lost because of another key", h.Name())
					}
				}
				w.Do("DEL", "evil")
				_ = good.Unlock()
				_ = evil.Unlock()
				_ = last.Unlock()
			})
		})
	}
}

// An Unlock that races with Close leaves nothing.
func TestUnlockRacingClose(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		left := 0
		for range 150 {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				h := kit.Must(t)(w.Lock(c).Lock(background))
				var wg sync.WaitGroup
				start := make(chan struct{})
				wg.Go(func() { <-start; _ = h.Unlock() })
				wg.Go(func() { <-start; _ = c.Close() })
				close(start)
				wg.Wait()
				if len(w.Kind.Stands(w.Ask, "x")) > 0 {
					left++
					w.Wipe()
				}
			})
		}
		if left > 0 {
			t.Errorf("left in Redis %d times, with Close having returned nil", left)
		}
	})
}

// Nested holds do not stretch WithMaxHold, nor does Extend on one.
func TestNestedHoldsKeepToMaxHold(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithMaxHold(time.Minute))
		start := time.Now()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		for time.Since(start) < 10*time.Minute {
			inner, err := w.Lock(c).Lock(outer.Context())
			if err != nil {
				break
			}
			time.Sleep(10 * time.Second)
			if inner.Unlock() != nil {
				break
			}
		}
		kit.Took(t, time.Since(start), 0, 61*time.Second, "the outer hold still lives after %v")
		_ = outer.Unlock()
	})
}

func TestExtendKeepsToMaxHold(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithMaxHold(time.Minute))
		start := time.Now()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		time.Sleep(50 * time.Second)
		inner := kit.Must(t)(w.Lock(c).Lock(outer.Context(), holdfast.FixedLease(time.Millisecond*10)))
		if err := inner.Extend(background, 59*time.Second); err != nil {
			t.Log(err)
		}
		kit.Took(t, kit.LostAt(t, outer, start), 0, 61*time.Second, "lost after %v")
		_ = inner.Unlock()
		_ = outer.Unlock()
	})
}

// A release is repeated in the background until the key has expired by itself.
func TestReleaseIsRepeatedForTheWholeLease(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var failed atomic.Int32
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnError: func(context.Context, holdfast.Event) { failed.Add(1) }}))
		h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Hour)))
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		if err := h.Unlock(); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(time.Minute)
		d.SetFaults(nil)
		time.Sleep(time.Minute)
		if len(w.Kind.Stands(w.Ask, "x")) > 0 {
			t.Errorf("an outage of a minute leaves the lock for %v more; OnError %d times", w.Lives(h.Owner()), failed.Load())
		}
		w.Wipe()
	})
}

// TryLock is bounded, also by another call of the same owner.
func TestTryLockIsBounded(t *testing.T) {
	for _, how := range []string{"same owner in line", "unsettled unlock"} {
		t.Run(how, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				other, _ := w.Client()
				mu := w.Lock(c)
				ctx := holdfast.WithOwner(background, c.NewOwner())
				var wg sync.WaitGroup
				if how == "unsettled unlock" {
					h := kit.Must(t)(mu.Lock(ctx))
					kit.Silent(d, memdriver.Fault{LoseRequest: true})
					_ = h.Unlock()
				} else {
					h := kit.Must(t)(w.Rival(other).Lock(background))
					wg.Go(func() {
						h, err := mu.Lock(ctx)
						if err == nil {
							kit.Unlock(t, h)
						}
					})
					time.AfterFunc(time.Minute, func() { kit.Unlock(t, h) })
					synctest.Wait()
				}
				start := time.Now()
				h, err := mu.TryLock(ctx)
				if took := time.Since(start); took > holdfast.DefaultTimeout {
					t.Errorf("TryLock took %v: %v", took, err)
				}
				if err == nil {
					_ = h.Unlock()
				}
				wg.Wait()
				d.SetFaults(nil)
				time.Sleep(time.Hour)
			})
		})
	}
}

// After a loss, Unlock of a SyncLocker does not unlock the next one's hold.
func TestSyncLockerUnlocksItsOwnHold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		l := holdfast.SyncLocker(background, w.Lock(c))
		l.Lock() // the first goroutine's
		w.Wipe()
		time.Sleep(15 * time.Second) // it is lost
		second := make(chan struct{})
		go func() { l.Lock(); close(second) }()
		synctest.Wait()
		func() {
			defer func() {
				if r := recover(); r == nil {
					t.Error("the first one's Unlock did not panic")
				}
			}()
			l.Unlock() // the first goroutine's
		}()
		<-second // only now: until then the first believed to be alone
		if h, err := w.Rival(other).TryLock(background); err == nil {
			t.Error("the second goroutine's lock was given away")
			kit.Unlock(t, h)
		}
		l.Unlock()
	})
}

// Leases that could never be trusted are refused.
func TestTinyLease(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithMargin(time.Second))
		for _, lease := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Second} {
			kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).Lock(background, holdfast.FixedLease(lease)))
		}
		kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).Lock(background, holdfast.RenewedLease(2*time.Second)))
		time.Sleep(time.Second)
	})
}

// A delayed forced unlock does not hit the next holder.
func TestDelayedForceUnlockDoesNotHitTheNextHolder(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		operator, d := w.Client()
		kit.Must(t)(w.Lock(a).Lock(background))
		kit.Once(d, "force", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		was, err := w.Lock(operator).ForceUnlock(background)
		if err != nil || !was {
			t.Fatal(was, err)
		}
		h := kit.Must(t)(w.Lock(a).Lock(background)) // after it
		time.Sleep(500 * time.Millisecond)
		w.WantCount("x", h.Owner(), 1)
		_ = h.Unlock()
	})
}

// Nor does it hit who has waited, and has the lock since an earlier send of it.
func TestDelayedForceUnlockDoesNotHitTheWaiter(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		operator, d := w.Client()
		kit.Must(t)(a.NewMutex("x").Lock(background))
		kit.Once(d, "force", memdriver.Fault{DelayRequest: 2200 * time.Millisecond}) // the second send is answered after 2 s
		go func() {
			kit.Force(t, operator.NewMutex("x"))
		}()
		h := kit.Must(t)(b.NewMutex("x").Lock(background))
		time.Sleep(time.Second)
		w.WantCount("x", h.Owner(), 1)
		kit.Unlock(t, h)
	})
}

// OnLost is told of every loss.
func TestEveryLossIsTold(t *testing.T) {
	// a) the lock is found gone by Unlock.
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var lost, released atomic.Int32
		c, _ := w.Client(holdfast.WithHooks(holdfast.Hooks{
			OnLost:    func(context.Context, holdfast.Event) { lost.Add(1) },
			OnRelease: func(context.Context, holdfast.Event) { released.Add(1) },
		}))
		h := kit.Must(t)(w.Lock(c).Lock(background))
		w.Wipe()
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
		if lost.Load() != 1 {
			t.Errorf("gone at Unlock: OnLost %d times, OnRelease %d times, cause %v", lost.Load(), released.Load(), context.Cause(h.Context()))
		}
	})
	// b) Unlock at the very moment of the deadline.
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		missed, losses := 0, 0
		for range 50 {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				var lost atomic.Int32
				c, _ := w.Client(holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { lost.Add(1) }}))
				h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Second)))
				time.Sleep(time.Until(h.Deadline()))
				err := h.Unlock()
				time.Sleep(time.Minute)
				if errors.Is(err, holdfast.ErrLost) {
					losses++
					if lost.Load() == 0 {
						missed++
					}
				}
			})
		}
		if missed > 0 {
			t.Errorf("at the deadline: %d of %d losses were not told to OnLost", missed, losses)
		}
	})
}

// Unlock of a lost hold says so at once, whatever is being reconciled.
func TestUnlockOfALostHold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithLease(3 * time.Second))
		mu := w.Lock(c)
		h := kit.Must(t)(mu.Lock(background))
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.Context()), 2500*time.Millisecond)
		defer cancel()
		_, err := mu.Lock(ctx) // reconciled in the background for a while
		t.Log(err)
		kit.LostAt(t, h, time.Now())
		start := time.Now()
		err = h.Unlock()
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of a lost hold after %v: %v", time.Since(start), err)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// A call of the same owner may come between an Unlock and its release. It keeps
// what still stands in Redis, and nobody waits for the lease to end.
func TestLockBetweenUnlockAndRelease(t *testing.T) {
	kit.ForNesting(t, func(t *testing.T, k *kit.Kind) {
		worst := time.Duration(0)
		for range 25 {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				mu := w.Lock(c)
				owner := holdfast.WithOwner(background, c.NewOwner())
				theirs := kit.Must(t)(w.Rival(other).Lock(background))
				var wg sync.WaitGroup
				lockUnlock := func(ctx context.Context) {
					wg.Go(func() {
						h, err := mu.Lock(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						if err := h.Unlock(); err != nil {
							t.Log(err) // "no answer in time", and Redis is well
						}
					})
					synctest.Wait()
				}
				lockUnlock(owner)      // stands in line, and has the turn
				lockUnlock(owner)      // waits for the turn
				lockUnlock(background) // in line behind the first
				start := time.Now()
				kit.Unlock(t, theirs)
				wg.Wait()
				worst = max(worst, time.Since(start))
			})
		}
		if worst > 4*time.Second {
			t.Errorf("the lock was free, and nobody got it for %v", worst)
		}
	})
}

// An Unlock begun in time, whose release arrives after the lease, is no loss.
func TestSlowUnlockIsNoLoss(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithLease(300 * time.Millisecond))
		h := kit.Must(t)(w.Lock(c).Lock(background))
		kit.Once(d, "release", memdriver.Fault{DelayRequest: 400 * time.Millisecond})
		if err := h.Unlock(); err != nil {
			t.Errorf("Unlock, begun 300ms before the end of the lease: %v", err)
		}
	})
}

// What ends a reconciliation is a release that was sent after the limit of the send
// that was given up, not one that was answered after it.
func TestSlowAnswerReconcilesNothing(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		var n, m int
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			switch call.Script.Name() {
			case "acquire":
				if n++; n == 1 {
					return memdriver.Fault{DelayRequest: 2200 * time.Millisecond}
				}
			case "release":
				if m++; m == 1 {
					return memdriver.Fault{DelayReply: 600 * time.Millisecond}
				}
			}
			return memdriver.Fault{}
		})
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		time.Sleep(5 * time.Second)
		w.WantCount("x", holdfast.Owner{}, 0)
		time.Sleep(time.Minute)
	})
}

// An Unlock waits until nothing is left to give back, and not until the last moment
// at which an old send could still arrive: that concerns the next acquire.
func TestUnlockDoesNotWaitForOldSends(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithTimeout(outer.Context(), 10*time.Millisecond)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		start := time.Now()
		kit.Unlock(t, outer)
		// The client gives the nested send up after a third of its timeout, 2 s; it could
		// have its effect for half a second more.
		kit.Took(t, time.Since(start), 0, 2*time.Second, "Unlock took %v")
		w.WantCount("x", outer.Owner(), 0)
	})
}

// A hold is printed in words, whatever it is of.
func TestHoldIsPrinted(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		want := func(h *holdfast.Hold, want string) {
			t.Helper()
			if got := fmt.Sprint(h); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		x, y := c.NewMutex("x\n"), c.NewRWMutex("{x\n}2")
		h := kit.Must(t)(x.Lock(background))
		owner := h.Owner().String()
		want(h, `mutex "x\n", held by `+owner)
		if _, err := x.ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		<-h.Context().Done()
		want(h, `mutex "x\n", lost by `+owner)
		both := holdfast.NewMultiLock(x, y)
		h = kit.Must(t)(both.Lock(background))
		want(h, fmt.Sprintf("multi %q, held by %v", both.Name(), h.Owner()))
		want(h.Parts()[1], `write "{x\n}2", held by `+h.Owner().String())
		kit.Unlock(t, h)
		want(h, fmt.Sprintf("multi %q, given up by %v", both.Name(), h.Owner()))
		h = kit.Must(t)(y.RLock(background))
		detached, err := h.Detach()
		kit.OK(t, err)
		want(h, `read "{x\n}2", given up by `+detached.String())
		kit.Unlock(t, kit.Must(t)(y.RLocker().Adopt(background, detached)))
	})
}
