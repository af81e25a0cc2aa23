package owner

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// One owner in two goroutines: one unlocks while the other one's Lock is under way. What
// Unlock and Lock say is about the hold that they were called for.

// TestUnlockBesideALaterLoss: the hold that comes after it is lost, while it is being given back.
func TestUnlockBesideALaterLoss(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := kit.Must(t)(w.Lock(c).Lock(ctx))
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
		two := kit.Waiting(t, w.Lock(c), ctx, holdfast.FixedLease(time.Second))
		time.Sleep(100 * time.Millisecond)
		kit.Unlock(t, one)
		later := <-two
		kit.WantLost(t, later)
		kit.WantError(t, later.Unlock(), holdfast.ErrLost)
		time.Sleep(time.Minute)
	})
}

// TestUnlockOfWhatWasTaken: the lock was taken by force, and what became of a nested Lock before that is not known.
func TestUnlockOfWhatWasTaken(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		one := kit.Must(t)(w.Lock(c).Lock(holdfast.WithOwner(background, c.NewOwner())))
		kit.Once(d, "acquire", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithCancel(one.Context())
		done := make(chan error)
		go func() {
			_, err := w.Lock(c).Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		cancel()
		kit.WantError(t, <-done, context.Canceled)
		kit.Force(t, w.Lock(other))
		kit.WantError(t, one.Unlock(), holdfast.ErrLost)
	})
}

// TestLockBehindAnExpiredHold: the hold was unlocked, and its lease has run out, before the Lock arrives that was to be
// nested in it. That is a loss to the Lock, and none to the hold.
func TestLockBehindAnExpiredHold(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := kit.Must(t)(w.Lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		kit.Unlock(t, one)
		kit.WantError(t, (<-two).Err, holdfast.ErrLost)
		kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(ctx)))
	})
}

// TestLockInAHoldThatIsGivenBack: the lease of the hold that it was to be nested in has run out, too, before it arrives.
func TestLockInAHoldThatIsGivenBack(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		one := kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Second)))
		one.Owner() // asked for: it does not pass on
		time.Sleep(900 * time.Millisecond)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := make(chan error, 1)
		go func() {
			_, err := w.Lock(c).Lock(context.WithoutCancel(one.Context()))
			two <- err
		}()
		synctest.Wait()
		kit.Unlock(t, one)
		if err := <-two; !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Lock: %v", err)
		}
	})
}
