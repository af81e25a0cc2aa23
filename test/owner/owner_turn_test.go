package owner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The calls of one owner have their turn one after another. What a call was to be nested in may end before its turn comes.

// TestTryLockOfABusyOwnerInTime: it has its turn when hardly any time is left.
func TestTryLockOfABusyOwnerInTime(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Lock(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		waiting, cancel := context.WithCancel(ctx)
		go func() { _, _ = w.Lock(c).Lock(waiting) }()
		synctest.Wait()
		time.AfterFunc(5900*time.Millisecond, func() {
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			cancel()
		})
		start := time.Now()
		_, err := w.Lock(c).TryLock(ctx)
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("TryLock took %v: %v", took, err)
		}
		d.SetFaults(nil)
		kit.Unlock(t, theirs)
	})
}

// TestMultiLockLeavesTheOthersToUnlock: while it waits for one of its locks, another one can be given back, though an
// attempt to acquire that may not be answered yet.
func TestMultiLockLeavesTheOthersToUnlock(t *testing.T) {
	for _, uncertain := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			w.Names = []string{"a", "b"}
			c, d := w.Client()
			other, _ := w.Client()
			ctx, cancel := context.WithCancel(holdfast.WithOwner(background, c.NewOwner()))
			theirs := kit.Must(t)(other.NewMutex("b").Lock(background))
			if uncertain {
				kit.Once(d, "acquire", memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
			}
			a := kit.Must(t)(c.NewMutex("a").Lock(ctx))
			two := kit.Begin(func() (*holdfast.Hold, error) { return c.NewMutex("b").Lock(ctx) })
			three := kit.Begin(func() (*holdfast.Hold, error) { return holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).TryLock(ctx) })
			start := time.Now()
			kit.Unlock(t, a)
			if took := time.Since(start); took > time.Second {
				t.Errorf("uncertain %v: Unlock took %v", uncertain, took)
			}
			cancel()
			<-two
			<-three
			kit.Unlock(t, theirs)
		})
	}
}

// TestUnlockOfWhatWasTakenBesideTheNextHold: who finds that it was taken is the owner's next Lock, which begins the next hold.
func TestUnlockOfWhatWasTakenBesideTheNextHold(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 500 * time.Millisecond})
		two := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		three := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		kit.Force(t, w.Lock(other))
		time.Sleep(10 * time.Millisecond)
		if err := one.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		kit.WantError(t, (<-two).Err, holdfast.ErrLost)
		got := <-three
		kit.OK(t, got.Err)
		kit.Unlock(t, got.Hold)
	})
}

// busyOwner locks as the owner, whose Detach waits for an attempt that was not answered: nothing else is asked as that
// owner meanwhile.
func busyOwner(ctx context.Context, t *testing.T, w *kit.World, c *holdfast.Client, d *memdriver.Driver) *holdfast.Hold {
	t.Helper()
	kit.Once(d, "acquire", memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
	h := kit.Must(t)(w.Lock(c).Lock(ctx))
	go func() { _, _ = h.Detach() }() // it is unlocked meanwhile
	synctest.Wait()
	return h
}

// TestUnlockBehindAReleaseThatWasNotSent: so nothing but force can have taken the lock.
func TestUnlockBehindAReleaseThatWasNotSent(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := busyOwner(ctx, t, w, c, d)
		two := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx, holdfast.Wait(3*time.Second)) })
		kit.Force(t, w.Lock(other))
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "release" {
				f.Refuse = errors.New("connection refused")
			}
			return f
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- one.Unlock() }()
		if got := <-two; got.Err == nil {
			t.Error("it has given back, though Redis is away")
		}
		d.SetFaults(nil)
		kit.WantError(t, <-unlocked, holdfast.ErrLost)
	})
}

// TestMaxHoldOfALockInOneThatEnded: its owner has had the lock all the time.
func TestMaxHoldOfALockInOneThatEnded(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		slow := memdriver.Fault{DelayRequest: 100 * time.Millisecond}
		for _, step := range []struct {
			asked, reached time.Duration
			fault          memdriver.Fault
		}{
			{5 * time.Second, 5 * time.Second, slow},
			{9 * time.Second, 9 * time.Second, slow},
			{6 * time.Second, 9 * time.Second, slow},                             // with less left than it asked for
			{6 * time.Second, 9 * time.Second, memdriver.Fault{LoseReply: true}}, // and nothing left when it hears of that
		} {
			c, d := w.Client(holdfast.WithMaxHold(10 * time.Second))
			ctx := holdfast.WithOwner(background, c.NewOwner())
			one := kit.Must(t)(w.Lock(c).Lock(ctx))
			start := time.Now()
			time.Sleep(step.asked)
			kit.OnceFrom(d, "acquire", start.Add(step.reached), step.fault)
			two := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
			kit.Unlock(t, one)
			got := <-two
			err := got.Err
			if err == nil {
				<-got.Hold.Context().Done()
				kit.Took(t, time.Since(start), 9*time.Second, 10*time.Second, "held for %v")
				err = got.Hold.Unlock()
			}
			lost := new(holdfast.LostError)
			if !errors.As(err, &lost) || lost.Reason != holdfast.LostMaxHoldOver || (got.Err != nil) != step.fault.LoseReply {
				t.Errorf("%+v: Lock: %v; Unlock: %v", step, got.Err, err)
			}
		}
	})
}

// TestLockWhoseOuterHoldEndsBeforeItsTurn: by hand it would be acquired, since its owner has the lock still.
func TestLockWhoseOuterHoldEndsBeforeItsTurn(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		ctx := context.WithoutCancel(outer.Context())
		kit.Once(d, "acquire", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		first := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		second := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).TryLock(ctx) })
		kit.Unlock(t, outer)
		inner := <-first
		kit.OK(t, inner.Err)
		got := <-second
		if kit.WantError(t, got.Err, holdfast.ErrNotHeld); errors.Is(got.Err, holdfast.ErrLost) {
			t.Errorf("TryLock: %v", got.Err)
		}
		kit.Unlock(t, inner.Hold)
	})
}

// TestErrorBehindAnEarlierCallOfTheOwner: a call that has waited in vain returns what the earlier one was refused with, or says
// that an Unlock is not answered.
func TestErrorBehindAnEarlierCallOfTheOwner(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())

		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		waiting, cancel := context.WithCancel(ctx)
		first := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(waiting) })
		for _, call := range []func() (*holdfast.Hold, error){
			func() (*holdfast.Hold, error) { return w.Lock(c).TryLock(ctx) },
			func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx, holdfast.Wait(time.Second)) },
		} {
			_, err := call()
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Holder != theirs.Owner() {
				t.Errorf("behind a Lock that waits: %v", err)
			}
		}
		cancel()
		kit.WantError(t, (<-first).Err, context.Canceled)
		kit.Unlock(t, theirs)

		h := kit.Must(t)(w.Lock(c).Lock(ctx))
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "release"}
		})
		unlocked := kit.Aside(h.Unlock)
		_, err := w.Lock(c).Lock(ctx, holdfast.Wait(time.Second))
		kit.WantBackend(t, "behind an Unlock that is not answered", err, "an earlier call of its owner has no answer yet: Redis did not answer in time")
		d.SetFaults(nil)
		kit.OK(t, <-unlocked)
	})
}

// TestErrorOfASilentRedisBehindARefusal: the earlier call was refused, and Redis falls silent when the next ones ask. That is what
// they say, and not that another holds the lock, who has unlocked it since.
func TestErrorOfASilentRedisBehindARefusal(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		first := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx, holdfast.Wait(time.Second)) })
		time.Sleep(900 * time.Millisecond)
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "acquire"}
		})
		d.LoseMessages(w.Kind.ByMessage) // or no call would be needed
		kit.Unlock(t, theirs)
		kit.WantError(t, (<-first).Err, holdfast.ErrLocked)
		for range 3 {
			for _, wait := range []time.Duration{0, time.Second, 3 * time.Second} { // 0: TryLock
				if _, err := w.Lock(c).Lock(ctx, holdfast.Wait(wait)); !errors.As(err, new(*holdfast.BackendError)) || errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("with a wait of %v: %v", wait, err)
				}
			}
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}
