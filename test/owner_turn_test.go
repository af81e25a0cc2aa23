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

// The calls of one owner have their turn one after another. What a call was to be nested in may end before its turn comes.

// result is what a call has returned.
type result struct {
	hold *holdfast.Hold
	err  error
}

// begin makes a call in a goroutine of its own.
func begin(call func() (*holdfast.Hold, error)) <-chan result {
	done := make(chan result, 1)
	go func() {
		h, err := call()
		done <- result{h, err}
	}()
	synctest.Wait()
	return done
}

// TestTryLockOfABusyOwnerInTime: it has its turn when hardly any time is left.
func TestTryLockOfABusyOwnerInTime(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		theirs := must(t)(w.lock(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		waiting, cancel := context.WithCancel(ctx)
		go func() { _, _ = w.lock(c).Lock(waiting) }()
		synctest.Wait()
		time.AfterFunc(5900*time.Millisecond, func() {
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			cancel()
		})
		start := time.Now()
		_, err := w.lock(c).TryLock(ctx)
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("TryLock took %v: %v", took, err)
		}
		d.SetFaults(nil)
		unlock(t, theirs)
	})
}

// TestMultiLockLeavesTheOthersToUnlock: while it waits for one of its locks, another one can be given back, though an
// attempt to acquire that may not be answered yet.
func TestMultiLockLeavesTheOthersToUnlock(t *testing.T) {
	for _, uncertain := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			w.names = []string{"a", "b"}
			c, d := w.client()
			other, _ := w.client()
			ctx, cancel := context.WithCancel(holdfast.WithOwner(background, c.NewOwner()))
			theirs := must(t)(other.NewMutex("b").Lock(background))
			if uncertain {
				once(d, "acquire", memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
			}
			a := must(t)(c.NewMutex("a").Lock(ctx))
			two := begin(func() (*holdfast.Hold, error) { return c.NewMutex("b").Lock(ctx) })
			three := begin(func() (*holdfast.Hold, error) { return holdfast.NewMultiLock(mutexes(c, "a", "b")...).TryLock(ctx) })
			start := time.Now()
			unlock(t, a)
			if took := time.Since(start); took > time.Second {
				t.Errorf("uncertain %v: Unlock took %v", uncertain, took)
			}
			cancel()
			<-two
			<-three
			unlock(t, theirs)
		})
	}
}

// TestUnlockOfWhatWasTakenBesideTheNextHold: who finds that it was taken is the owner's next Lock, which begins the next hold.
func TestUnlockOfWhatWasTakenBesideTheNextHold(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx))
		once(d, "acquire", memdriver.Fault{DelayRequest: 500 * time.Millisecond})
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		three := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		if did, err := w.lock(other).ForceUnlock(background); !did {
			t.Fatalf("ForceUnlock: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
		if err := one.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		wantError(t, (<-two).err, holdfast.ErrLost)
		got := <-three
		ok(t, got.err)
		unlock(t, got.hold)
	})
}

// busyOwner locks as the owner, whose Detach waits for an attempt that was not answered: nothing else is asked as that
// owner meanwhile.
func busyOwner(ctx context.Context, t *testing.T, w *world, c *holdfast.Client, d *memdriver.Driver) *holdfast.Hold {
	t.Helper()
	once(d, "acquire", memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
	h := must(t)(w.lock(c).Lock(ctx))
	go func() { _, _ = h.Detach() }() // it is unlocked meanwhile
	synctest.Wait()
	return h
}

// TestUnlockBehindAReleaseThatWasNotSent: so nothing but force can have taken the lock.
func TestUnlockBehindAReleaseThatWasNotSent(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := busyOwner(ctx, t, w, c, d)
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx, holdfast.Wait(3*time.Second)) })
		if did, err := w.lock(other).ForceUnlock(background); !did {
			t.Fatalf("ForceUnlock: %v", err)
		}
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "release" {
				f.Refuse = errors.New("connection refused")
			}
			return f
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- one.Unlock() }()
		if got := <-two; got.err == nil {
			t.Error("it has given back, though Redis is away")
		}
		d.SetFaults(nil)
		wantError(t, <-unlocked, holdfast.ErrLost)
	})
}

// TestMaxHoldOfALockInOneThatEnded: its owner has had the lock all the time.
func TestMaxHoldOfALockInOneThatEnded(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
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
			c, d := w.client(holdfast.WithMaxHold(10 * time.Second))
			ctx := holdfast.WithOwner(background, c.NewOwner())
			one := must(t)(w.lock(c).Lock(ctx))
			start := time.Now()
			time.Sleep(step.asked)
			onceFrom(d, "acquire", start.Add(step.reached), step.fault)
			two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
			unlock(t, one)
			got := <-two
			err := got.err
			if err == nil {
				<-got.hold.Context().Done()
				if held := time.Since(start); held < 9*time.Second || held > 10*time.Second {
					t.Errorf("held for %v", held)
				}
				err = got.hold.Unlock()
			}
			lost := new(holdfast.LostError)
			if !errors.As(err, &lost) || lost.Reason != holdfast.LostMaxHoldOver || (got.err != nil) != step.fault.LoseReply {
				t.Errorf("%+v: Lock: %v; Unlock: %v", step, got.err, err)
			}
		}
	})
}

// TestLockWhoseOuterHoldEndsBeforeItsTurn: by hand it would be acquired, since its owner has the lock still.
func TestLockWhoseOuterHoldEndsBeforeItsTurn(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		outer := must(t)(w.lock(c).Lock(background))
		ctx := context.WithoutCancel(outer.Context())
		once(d, "acquire", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		first := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		second := begin(func() (*holdfast.Hold, error) { return w.lock(c).TryLock(ctx) })
		unlock(t, outer)
		inner := <-first
		ok(t, inner.err)
		got := <-second
		if wantError(t, got.err, holdfast.ErrNotHeld); errors.Is(got.err, holdfast.ErrLost) {
			t.Errorf("TryLock: %v", got.err)
		}
		unlock(t, inner.hold)
	})
}

// TestErrorBehindAnEarlierCallOfTheOwner: a call that has waited in vain returns what the earlier one was refused with, or says
// that an Unlock is not answered.
func TestErrorBehindAnEarlierCallOfTheOwner(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())

		theirs := must(t)(w.rival(other).Lock(background))
		waiting, cancel := context.WithCancel(ctx)
		first := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(waiting) })
		for _, call := range []func() (*holdfast.Hold, error){
			func() (*holdfast.Hold, error) { return w.lock(c).TryLock(ctx) },
			func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx, holdfast.Wait(time.Second)) },
		} {
			_, err := call()
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Holder != theirs.Owner() {
				t.Errorf("behind a Lock that waits: %v", err)
			}
		}
		cancel()
		wantError(t, (<-first).err, context.Canceled)
		unlock(t, theirs)

		h := must(t)(w.lock(c).Lock(ctx))
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "release"}
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- h.Unlock() }()
		synctest.Wait()
		_, err := w.lock(c).Lock(ctx, holdfast.Wait(time.Second))
		wantBackend(t, "behind an Unlock that is not answered", err, "an earlier call of its owner has no answer yet: Redis did not answer in time")
		d.SetFaults(nil)
		ok(t, <-unlocked)
	})
}

// TestErrorOfASilentRedisBehindARefusal: the earlier call was refused, and Redis falls silent when the next ones ask. That is what
// they say, and not that another holds the lock, who has unlocked it since.
func TestErrorOfASilentRedisBehindARefusal(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		theirs := must(t)(w.rival(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		first := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx, holdfast.Wait(time.Second)) })
		time.Sleep(900 * time.Millisecond)
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "acquire"}
		})
		d.LoseMessages(w.kind.byMessage) // or no call would be needed
		unlock(t, theirs)
		wantError(t, (<-first).err, holdfast.ErrLocked)
		for range 3 {
			for _, wait := range []time.Duration{0, time.Second, 3 * time.Second} { // 0: TryLock
				if _, err := w.lock(c).Lock(ctx, holdfast.Wait(wait)); !errors.As(err, new(*holdfast.BackendError)) || errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("with a wait of %v: %v", wait, err)
				}
			}
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}
