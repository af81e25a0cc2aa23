package owner

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// An acquire that first gives back what its owner holds no more is not hit by a delayed
// send of that: a lost hold is unlocked, and its owner locks again, alone or with another lock.
func TestLateReleaseAfterLoss(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		for range 10 {
			for _, several := range []bool{false, true} {
				c, d := w.Client(holdfast.WithMargin(10 * time.Second))
				rival, _ := w.Client()
				var again holdfast.Locker = w.Lock(c)
				if several {
					again = holdfast.NewMultiLock(again, w.Mutex(c, "y"))
				}
				ctx := holdfast.WithOwner(background, c.NewOwner())
				h := kit.Must(t)(w.Lock(c).Lock(ctx))
				kit.Away(d)
				<-h.Context().Done()
				time.Sleep(2500 * time.Millisecond)
				kit.Once(d, "release", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				next := kit.Must(t)(again.Lock(ctx))
				time.Sleep(time.Second)
				if r, err := w.Rival(rival).TryLock(background); err == nil {
					if next.Context().Err() == nil {
						t.Errorf("two inside; several: %v", several)
					}
					_ = r.Unlock()
				}
				_ = next.Unlock()
			}
		}
	})
}

// A Lock of the owner that waits while Detach waits must not get in beside the taker.
func TestLockDuringDetach(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Shared() {
			return
		}
		a, d := w.Client()
		b, _ := w.Client()
		ctx := holdfast.WithOwner(background, a.NewOwner())
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		h := kit.Must(t)(w.Lock(a).Lock(ctx)) // by the second send
		detached := make(chan holdfast.Owner, 1)
		go func() {
			owner, err := h.Detach()
			if err != nil {
				t.Error(err)
			}
			detached <- owner
		}()
		synctest.Wait() // Detach waits for the first send
		locked := make(chan *holdfast.Hold, 1)
		go func() {
			n, err := w.Lock(a).TryLock(ctx)
			t.Logf("nested: %v", err)
			locked <- n
		}()
		owner := <-detached
		n := <-locked
		adopted := kit.Must(t)(w.Lock(b).Adopt(background, owner))
		if n != nil && n.Context().Err() == nil && adopted.Context().Err() == nil {
			t.Error("TWO INSIDE: the giver's Lock and the taker's Adopt")
		}
		if n != nil {
			_ = n.Unlock()
		}
		_ = adopted.Unlock()
		time.Sleep(time.Minute)
	})
}

// A delayed send of an adopt must not take a nested hold's count away.
func TestLateAdoptBesideNested(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		h := kit.Must(t)(w.Lock(a).Lock(background))
		owner, err := h.Detach()
		kit.OK(t, err)
		kit.Once(d, "adopt", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		adopted := kit.Must(t)(w.Lock(b).Adopt(background, owner)) // by the second send
		n1 := kit.Must(t)(w.Lock(b).Lock(adopted.Context()))
		w.WantCount("x", adopted.Owner(), 2)
		time.Sleep(time.Second) // the first send arrives
		w.WantCount("x", adopted.Owner(), 2)
		n2, err := w.Lock(b).Lock(adopted.Context())
		if err != nil {
			t.Errorf("nested: %v; the hold: %v", err, context.Cause(adopted.Context()))
		} else {
			_ = n2.Unlock()
		}
		_ = n1.Unlock()
		_ = adopted.Unlock()
		time.Sleep(time.Minute)
		w.WantCount("x", adopted.Owner(), 0)
	})
}

// duringRenewal returns a hold, one of whose renewals has been carried out and not answered yet.
func duringRenewal(t *testing.T, w *kit.World, options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver, *holdfast.Hold) {
	t.Helper()
	c, d := w.Client(options...)
	var renewals atomic.Int64
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		if call.Script.Name() == "renew" && renewals.Add(1) == 2 { // the first is sent when the hold begins to listen
			return memdriver.Fault{DelayReply: 500 * time.Millisecond}
		}
		return memdriver.Fault{}
	})
	h := kit.Must(t)(w.Lock(c).Lock(background))
	time.Sleep(11 * time.Second)
	if renewals.Load() != 2 {
		t.Fatal(renewals.Load())
	}
	return c, d, h
}

// Extend while a renewal is under way: what was promised is remembered.
func TestExtendDuringRenewal(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		_, d, h := duringRenewal(t, w)
		kit.OK(t, h.Extend(background, time.Hour))
		time.Sleep(time.Second)
		kit.Away(d)
		if err := h.Unlock(); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(2 * time.Minute) // an outage, shorter than the lease
		d.SetFaults(nil)
		time.Sleep(time.Minute)
		if left := w.PTTL("x"); left > 0 {
			t.Errorf("given up: the key is left for %v", left)
		}
		w.Do("DEL", "x")
	})
}

// A nested hold of a long lease, acquired while a renewal is under way: the lost hold
// is kept until its key has gone, so that Unlock removes it.
func TestForgottenTooEarly(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _, h := duringRenewal(t, w, holdfast.WithMargin(10*time.Second))
		n2 := kit.Must(t)(w.Lock(c).Lock(holdfast.WithOwner(background, h.Owner()), holdfast.FixedLease(time.Hour)))
		time.Sleep(time.Second)
		kit.Unlock(t, h)
		<-n2.Context().Done()
		time.Sleep(time.Second)
		left := w.PTTL("x")
		kit.WantError(t, n2.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Second)
		if now := w.PTTL("x"); now > 0 {
			t.Errorf("Unlock of the lost hold has left the key, for %v (it had %v)", now, left)
		}
		w.Do("DEL", "x")
	})
}

// Close in a goroutine of a hook, of locks taken together.
func TestCloseFromHooks(t *testing.T) {
	for _, many := range []string{"one", "multi at once", "multi one by one", "red", "parts unlocked"} {
		t.Run(many, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var c *holdfast.Client
				var once sync.Once
				closing := func(context.Context, holdfast.Event) {
					go once.Do(func() {
						start := time.Now()
						if err := c.Close(); err != nil || time.Since(start) > 0 {
							t.Errorf("Close in a goroutine of a hook: %v after %v", err, time.Since(start))
						}
					})
				}
				hooks := holdfast.Hooks{OnAcquire: closing}
				if many == "parts unlocked" {
					hooks = holdfast.Hooks{OnRelease: closing}
				}
				c, _ = w.Client(holdfast.WithHooks(hooks))
				other, _ := w.Client()
				var l holdfast.Locker
				switch many {
				case "one":
					l = c.NewMutex("x")
				case "multi at once":
					l = holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("y"), c.NewMutex("z"))
				case "multi one by one":
					l = holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y"))
				case "parts unlocked":
					l = holdfast.NewMultiLock(c.NewFairMutex("x"), c.NewMutex("y"))
					defer func(h *holdfast.Hold) { _ = h.Unlock() }(kit.Must(t)(other.NewMutex("y").Lock(background)))
				case "red":
					l = holdfast.NewRedLock(c.NewMutex("x"))
				}
				h, e := l.TryLock(background)
				t.Logf("TryLock: %v", e)
				time.Sleep(time.Minute)
				if h != nil {
					_ = h.Unlock()
				}
			})
		})
	}
}

// The other side of a detached hold.
func TestOtherSideOfDetached(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		ctx := holdfast.WithOwner(background, a.NewOwner())
		m := a.NewRWMutex("x")
		writing := kit.Must(t)(m.Lock(ctx))
		owner, err := writing.Detach()
		kit.OK(t, err)
		reading, err := m.RLocker().TryLock(ctx)
		if err == nil {
			t.Error("the detached owner reads beside its detached write hold")
		}
		adopted, err := b.NewRWMutex("x").Adopt(background, owner)
		if err != nil {
			t.Errorf("Adopt: %v", err)
		} else {
			kit.Unlock(t, adopted)
		}
		if reading != nil {
			_ = reading.Unlock()
		}
		time.Sleep(time.Minute)
	})
}

// A delayed send of the other side's acquire.
func TestDetachOtherSideDelayed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, d := w.Client()
		b, _ := w.Client()
		m := a.NewRWMutex("x")
		writing := kit.Must(t)(m.Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		reading := kit.Must(t)(m.RLocker().Lock(writing.Context()))
		kit.Unlock(t, reading)
		owner, err := writing.Detach()
		kit.OK(t, err)
		time.Sleep(210 * time.Millisecond)
		adopted, err := b.NewRWMutex("x").Adopt(background, owner)
		if err != nil {
			t.Errorf("Adopt: %v", err)
		} else {
			_ = adopted.Unlock()
		}
		time.Sleep(time.Minute)
	})
}

// Detach at the very deadline: the hold is lost, and its hooks are told.
func TestDetachAtDeadline(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		untold := 0
		for range 300 {
			var told atomic.Int64
			h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second),
				holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told.Add(1) }})))
			time.Sleep(time.Until(h.Deadline()))
			_, err := h.Detach()
			if !errors.Is(err, holdfast.ErrLost) {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if told.Load() == 0 {
				untold++
			}
		}
		if untold > 0 {
			t.Errorf("%d of 300 losses were told to nobody", untold)
		}
	})
}

// Close in a goroutine of the hook that Unlock tells of a loss.
func TestCloseFromLostHookOfUnlock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		left := 0
		for range 200 {
			d := w.Server.Driver()
			c, err := testclient.New(d, holdfast.WithMargin(10*time.Second), holdfast.WithTimeout(time.Second))
			kit.OK(t, err)
			h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(30*time.Second),
				holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { go c.Close() }})))
			time.Sleep(time.Until(h.Deadline()))
			_ = h.Unlock()
			_ = c.Close()
			synctest.Wait()
			if w.PTTL("x") > 0 {
				left++
			}
			time.Sleep(time.Minute)
		}
		if left > 0 {
			t.Errorf("Close has left the key in %d of 200", left)
		}
	})
}

// Several unanswered sends, partial unlocks, nested holds: counts follow the holds.
func TestClearBetweenNested(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Once(d, "acquire", memdriver.Fault{DelayReply: time.Second})
		first, second := make(chan *holdfast.Hold, 1), make(chan *holdfast.Hold, 1)
		go func() { first <- kit.Must(t)(w.Lock(c).Lock(ctx)) }()
		synctest.Wait() // it has the turn
		go func() { second <- kit.Must(t)(w.Lock(c).Lock(ctx)) }()
		synctest.Wait() // it is next
		gone := kit.Aside(h.Unlock)
		kit.Once(d, "release", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		n1, n2 := <-first, <-second
		kit.OK(t, <-gone)
		w.WantCount("x", n1.Owner(), 2)
		time.Sleep(time.Second)
		w.WantCount("x", n1.Owner(), 2)
		n3, err := w.Lock(c).TryLock(ctx)
		if err != nil {
			t.Errorf("nested: %v; %v", err, context.Cause(n1.Context()))
		} else {
			_ = n3.Unlock()
		}
		_ = n1.Unlock()
		_ = n2.Unlock()
		time.Sleep(time.Minute)
	})
}

// fakeFenced runs f under fake time for each kind whose holds have tokens.
func fakeFenced(t *testing.T, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Fenced() {
			f(t, w)
		}
	})
}

// A nested Lock whose outer hold is unlocked while it is under way becomes the only
// hold: it has the token of the run of holds that goes on.
func TestTokenOfANestedHoldThatOutlives(t *testing.T) {
	fakeFenced(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Once(d, "acquire", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		nested := kit.Waiting(t, w.Lock(c), ctx)
		kit.Unlock(t, h)
		n := <-nested
		w.WantCount("x", n.Owner(), 1)
		if n.Token() < h.Token() {
			t.Errorf("token %d, the outer hold's was %d", n.Token(), h.Token())
		}
		kit.Unlock(t, n)
	})
}

// The owner's next hold has a token of its own, though a call of that owner was under way all the time.
func TestTokenOfTheNextRun(t *testing.T) {
	fakeFenced(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Once(d, "release", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		unlocked := kit.Aside(h.Unlock)
		next := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.OK(t, <-unlocked)
		if next.Token() <= h.Token() {
			t.Errorf("token %d, the hold's before was %d", next.Token(), h.Token())
		}
		kit.Unlock(t, next)
	})
}

// Under the context of a lost hold Lock is lost, now and later.
func TestContextOfAForgottenHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewMutex("x")
		h := kit.Must(t)(m.Lock(background, holdfast.FixedLease(time.Second)))
		after := context.WithoutCancel(h.Context())
		<-h.Context().Done()
		n, err := m.TryLock(after)
		t.Log("at once:", err)
		if n != nil {
			_ = n.Unlock()
		}
		time.Sleep(5 * time.Second)
		n, err = m.TryLock(after)
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("later: %v", err)
			_ = n.Unlock()
		}
		_ = h.Unlock()
	})
}

// Detach, Adopt and ForceUnlock of one client at one lock get out of each other's way.
func TestDetachBesideForce(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		var all sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = w.Lock(c).ForceUnlock(background) // there may be nothing to take
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		for range 100 {
			h := kit.Must(t)(w.Lock(c).Lock(background))
			if owner, err := h.Detach(); err == nil {
				if h, err := w.Lock(c).Adopt(background, owner); err == nil {
					_ = h.Unlock()
				}
			}
			_ = h.Unlock()
		}
		close(stop)
		all.Wait()
	})
}

// An owner that this client has not made yet may not lock: an acquire could get just that one for itself.
func TestOwnerOfTheFutureIsRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		mu := c.NewMutex("x")
		h := kit.Must(t)(mu.Lock(background))
		client, _, _ := strings.Cut(h.Owner().String(), ":")
		kit.Unlock(t, h)
		for _, number := range []string{"-1", "0", "2", "3", "4", "5"} {
			owner, err := holdfast.ParseOwner(client + ":" + number)
			kit.OK(t, err)
			kit.Fails(t, holdfast.ErrInvalid)(mu.TryLock(holdfast.WithOwner(background, owner)))
		}
		ctx := holdfast.WithOwner(background, h.Owner()) // it has ended
		kit.Unlock(t, kit.Must(t)(mu.Lock(ctx)))
	})
}
