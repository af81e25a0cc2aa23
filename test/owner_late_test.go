package test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// One owner in two goroutines: one unlocks while the other one's Lock is under way. What
// Unlock and Lock say is about the hold that they were called for.

// TestUnlockBesideALaterLoss: the hold that comes after it is lost, while it is being given back.
func TestUnlockBesideALaterLoss(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx))
		var acquires, releases atomic.Int32
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			switch name := call.Script.Name(); {
			case name == "acquire" && acquires.Add(1) == 1:
				f.DelayReply = 500 * time.Millisecond
			case name == "release" && releases.Add(1) == 1:
				f.LoseReply = true
			}
			return f
		})
		two := make(chan *holdfast.Hold, 1)
		go func() { two <- must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second))) }()
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		unlock(t, one)
		later := <-two
		wantLost(t, later)
		wantError(t, later.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
	})
}

// TestUnlockOfWhatWasTaken: the lock was taken by force, and what became of a nested Lock before that is not known.
func TestUnlockOfWhatWasTaken(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		one := must(t)(w.lock(c).Lock(holdfast.WithOwner(background, c.NewOwner())))
		once(d, "acquire", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithCancel(one.Context())
		done := make(chan error)
		go func() {
			_, err := w.lock(c).Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		cancel()
		wantError(t, <-done, context.Canceled)
		did, err := w.lock(other).ForceUnlock(background)
		ok(t, err)
		if !did {
			t.Error("nobody held it")
		}
		wantError(t, one.Unlock(), holdfast.ErrLost)
	})
}

// TestLockBehindAnExpiredHold: the hold was unlocked, and its lease has run out, before the Lock arrives that was to be
// nested in it. That is a loss to the Lock, and none to the hold.
func TestLockBehindAnExpiredHold(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		unlock(t, one)
		wantError(t, (<-two).err, holdfast.ErrLost)
		unlock(t, must(t)(w.lock(c).Lock(ctx)))
	})
}

// TestLockInAHoldThatIsGivenBack: the lease of the hold that it was to be nested in has run out, too, before it arrives.
func TestLockInAHoldThatIsGivenBack(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		one := must(t)(w.lock(c).Lock(background, holdfast.FixedLease(time.Second)))
		one.Owner() // asked for: it does not pass on
		time.Sleep(900 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := make(chan error, 1)
		go func() {
			_, err := w.lock(c).Lock(context.WithoutCancel(one.Context()))
			two <- err
		}()
		synctest.Wait()
		unlock(t, one)
		if err := <-two; !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Lock: %v", err)
		}
	})
}
