package test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
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
// nested in it. Nobody has lost anything.
func TestLockBehindAnExpiredHold(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := make(chan *holdfast.Hold, 1)
		go func() { two <- must(t)(w.lock(c).Lock(ctx)) }()
		synctest.Wait()
		unlock(t, one)
		unlock(t, <-two)
	})
}

// TestMultiLockBehindAnExpiredHold: the same for one of several locks.
func TestMultiLockBehindAnExpiredHold(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		w.names = []string{"{x}1", "{x}2"}
		c, d := w.client()
		multi := holdfast.NewMultiLock(mutexes(c, w.names...)...)
		for _, acquire := range []func(context.Context) (*holdfast.Hold, error){
			func(ctx context.Context) (*holdfast.Hold, error) { return multi.Lock(ctx) },
			func(ctx context.Context) (*holdfast.Hold, error) { return multi.TryLock(ctx) },
		} {
			ctx := holdfast.WithOwner(background, c.NewOwner())
			one := must(t)(c.NewMutex("{x}2").Lock(ctx, holdfast.FixedLease(time.Second)))
			time.Sleep(900 * time.Millisecond)
			once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
			two := make(chan *holdfast.Hold, 1)
			go func() { two <- must(t)(acquire(ctx)) }()
			synctest.Wait()
			unlock(t, one)
			unlock(t, <-two)
		}
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

// cutting is a driver whose connection breaks under the first acquire, which arrives all the same, so much later.
type cutting struct {
	*memdriver.Driver

	late atomic.Int64 // 0: never
	cut  atomic.Bool
}

func (d *cutting) Eval(ctx context.Context, call driver.Call) (any, error) {
	late := time.Duration(d.late.Load())
	if call.Script.Name() != "acquire" || late == 0 || d.cut.Swap(true) {
		return d.Driver.Eval(ctx, call)
	}
	call.Args, call.Late = slices.Clone(call.Args), nil
	go func() {
		time.Sleep(late)
		_, _ = d.Driver.Eval(background, call) // nobody hears the answer
	}()
	return nil, driver.ConnectionError(errors.New("connection reset"), false)
}

// TestLateAttemptBehindAnExpiredHold: an attempt that was to be nested arrives when its Lock, or a later one, has found the lease
// over, and has asked anew.
func TestLateAttemptBehindAnExpiredHold(t *testing.T) {
	for name, granted := range map[string]bool{"of the same Lock": false, "of one that was granted": true} {
		t.Run(name, func(t *testing.T) {
			fakeNesting(t, func(t *testing.T, w *world) {
				d := &cutting{Driver: w.server.Driver()}
				c, err := testclient.New(d, holdfast.WithoutIdentity())
				ok(t, err)
				defer func() { ok(t, c.Close()) }()
				ctx := holdfast.WithOwner(background, c.NewOwner())
				short := holdfast.FixedLease(500 * time.Millisecond)
				holds := []*holdfast.Hold{must(t)(w.lock(c).Lock(ctx, short))}
				if granted {
					d.late.Store(int64(1500 * time.Millisecond))
					holds = append(holds, must(t)(w.lock(c).Lock(ctx, short)))
				}
				time.Sleep(400 * time.Millisecond)
				if !granted {
					d.late.Store(int64(1400 * time.Millisecond))
				}
				once(d.Driver, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond}) // the attempt after it comes when the lease is over
				next := make(chan *holdfast.Hold, 1)
				go func() { next <- must(t)(w.lock(c).Lock(ctx)) }()
				synctest.Wait()
				var all sync.WaitGroup
				for _, h := range holds {
					all.Go(func() { unlock(t, h) })
				}
				all.Wait()
				later := <-next
				time.Sleep(2 * time.Second)
				unlock(t, later)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestShutdownBeforeALockOutlastsItsAttempts: the hold that it was to be nested in is over, and it does not wait
// until its first attempt cannot arrive any more.
func TestShutdownBeforeALockOutlastsItsAttempts(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		d := &cutting{Driver: w.server.Driver()}
		c, err := testclient.New(d, holdfast.WithoutIdentity())
		ok(t, err)
		kept := must(t)(w.mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(500*time.Millisecond)))
		time.Sleep(400 * time.Millisecond)
		d.late.Store(int64(1400 * time.Millisecond))
		once(d.Driver, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond}) // as above
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		over := beginShutdown(c)
		synctest.Wait()
		began := time.Now()
		unlock(t, one)
		if got := <-two; !errors.Is(got.err, holdfast.ErrClosed) || time.Since(began) > 500*time.Millisecond {
			t.Errorf("Lock, after %v: %v", time.Since(began), got.err)
		}
		unlock(t, kept)
		ok(t, <-over)
		time.Sleep(time.Minute)
	})
}
