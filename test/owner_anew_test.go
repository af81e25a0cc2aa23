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
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
)

// A Lock that was to be nested in a hold may find that this is over. It asks anew then, and is one like any other from then
// on: for Shutdown, for what it waits for, for its lease.

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

// shutdownEnds shuts down the client: what waits is to end then, and the holds are unlocked.
func shutdownEnds(t *testing.T, c *holdfast.Client, waits <-chan result, holds ...*holdfast.Hold) {
	t.Helper()
	over := beginShutdown(c)
	time.Sleep(time.Second)
	select {
	case got := <-waits:
		wantError(t, got.err, holdfast.ErrClosed)
	default:
		t.Fatal("it waits while the client shuts down") // it would be had while nobody gives it back
	}
	for _, h := range holds {
		unlock(t, h)
	}
	ok(t, <-over)
}

// TestShutdownEndsALockThatAskedAnew: Shutdown waits for another hold of the client; the Lock ends at once.
func TestShutdownEndsALockThatAskedAnew(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		kept := must(t)(w.mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 600 * time.Millisecond}) // it arrives when the lease is over
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		theirs := begin(func() (*holdfast.Hold, error) { return w.rival(other).Lock(background) })
		unlock(t, one)
		their := <-theirs
		ok(t, their.err)
		time.Sleep(2 * time.Second)
		shutdownEnds(t, c, two, their.hold, kept)
	})
}

// TestShutdownBeforeALockAsksAnew: Shutdown begins while a nested TryLock is on its way. It does not ask anew, though it would get the lock.
func TestShutdownBeforeALockAsksAnew(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		kept := must(t)(w.mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 600 * time.Millisecond}) // it arrives when the lease is over
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).TryLock(ctx) })
		over := beginShutdown(c)
		synctest.Wait()
		unlock(t, one)
		if got := <-two; !errors.Is(got.err, holdfast.ErrClosed) {
			t.Fatalf("TryLock: %v", got.err)
		}
		unlock(t, kept)
		ok(t, <-over)
	})
}

// onlyTheThird has Redis answer one attempt of all acquires, late: the last one that a TryLock has time for.
func onlyTheThird(d *memdriver.Driver, delay time.Duration) {
	var acquires atomic.Int32
	d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
		switch {
		case call.Script.Name() != "acquire":
		case acquires.Add(1) == 3:
			f.DelayReply = delay
		default:
			f.LoseRequest = true
		}
		return f
	})
}

// TestTryLockAsksAnewInTime: Redis is slow, and then away.
func TestTryLockAsksAnewInTime(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(900 * time.Millisecond)
		onlyTheThird(d, 1900*time.Millisecond)
		start, took := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, err := w.lock(c).TryLock(ctx)
			if backend := new(holdfast.BackendError); !errors.As(err, &backend) {
				t.Errorf("TryLock: %v", err)
			}
			took <- time.Since(start)
		}()
		synctest.Wait()
		unlock(t, one)
		if took := <-took; took > 6*time.Second {
			t.Errorf("TryLock took %v", took)
		}
	})
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

// TestLeaseOfALockThatAskedAnew: a full one, though the holds before it had reached their longest time.
func TestLeaseOfALockThatAskedAnew(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithMaxHold(10 * time.Second))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx))
		time.Sleep(9850 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		unlock(t, one)
		got := <-two
		ok(t, got.err)
		if left := time.Until(got.hold.Deadline()); left < 9*time.Second {
			t.Errorf("it is trusted for %v of 10 s", left)
		}
		unlock(t, got.hold)
	})
}

// contrary is a driver that answers to every acquire that the owner's count is another one than was thought.
type contrary struct {
	*memdriver.Driver

	asked atomic.Int64
}

func (d *contrary) Eval(ctx context.Context, call driver.Call) (any, error) {
	if call.Script.Name() != "acquire" {
		return d.Driver.Eval(ctx, call)
	}
	d.asked.Add(1)
	time.Sleep(time.Millisecond)
	return []any{int64(script.Changed), time.Now().UnixMilli(), int64(5)}, nil
}

// TestOnlyANestedLockAsksAnew: no script of ours answers so, but no answer is to have it ask for ever.
func TestOnlyANestedLockAsksAnew(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		d := &contrary{Driver: w.server.Driver()}
		c, err := testclient.New(d, holdfast.WithoutIdentity())
		ok(t, err)
		defer func() { ok(t, c.Close()) }()
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		defer cancel()
		_, err = c.NewMutex("x").Lock(ctx)
		if asked := d.asked.Load(); err == nil || asked > 10 {
			t.Errorf("asked %d times: %v", asked, err)
		}
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

// TestShutdownEndsALockThatHadToWaitToNest: when it has its turn, there is nothing to nest in.
func TestShutdownEndsALockThatHadToWaitToNest(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		if w.kind.polls {
			return // the rival would come too late
		}
		c, d := w.client()
		other, _ := w.client()
		kept := must(t)(w.mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		one := must(t)(w.lock(c).Lock(ctx))
		var sent atomic.Bool
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "acquire" {
				f.LoseRequest, f.DelayRequest = !sent.Swap(true), 50*time.Millisecond // the rival comes first
			}
			return f
		})
		cancelled, cancel := context.WithCancel(ctx)
		two := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(cancelled) })
		cancel()
		wantError(t, (<-two).err, context.Canceled)
		three := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		theirs := begin(func() (*holdfast.Hold, error) { return w.rival(other).Lock(background) })
		unlock(t, one)
		their := <-theirs
		ok(t, their.err)
		time.Sleep(5 * time.Second)
		shutdownEnds(t, c, three, their.hold, kept)
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

// TestShutdownWhileALockGivesBack: it gives back what it was to be nested in.
func TestShutdownWhileALockGivesBack(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		for _, lock := range []func(anyLock, context.Context) (*holdfast.Hold, error){
			func(l anyLock, ctx context.Context) (*holdfast.Hold, error) { return l.Lock(ctx) },
			func(l anyLock, ctx context.Context) (*holdfast.Hold, error) { return l.TryLock(ctx) },
		} {
			c, d := w.client()
			kept := must(t)(w.mutex(c, "z").Lock(background))
			ctx := holdfast.WithOwner(background, c.NewOwner())
			one := busyOwner(ctx, t, w, c, d)
			once(d, "release", memdriver.Fault{DelayRequest: 500 * time.Millisecond})
			two := begin(func() (*holdfast.Hold, error) { return lock(w.lock(c), ctx) })
			unlocked := make(chan error, 1)
			go func() { unlocked <- one.Unlock() }()
			time.Sleep(2600 * time.Millisecond) // the release is on its way
			over := beginShutdown(c)
			if got := <-two; !errors.Is(got.err, holdfast.ErrClosed) {
				t.Fatalf("after Shutdown: %v", got.err)
			}
			ok(t, <-unlocked)
			unlock(t, kept)
			ok(t, <-over)
		}
	})
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

// TestTryLockThatBeginsAnewInTime: the hold that it was to be nested in ends while it waits for its turn, and when it has that,
// Redis falls silent.
func TestTryLockThatBeginsAnewInTime(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		outer := must(t)(w.lock(c).Lock(background))
		ctx := context.WithoutCancel(outer.Context())
		onlyTheThird(d, 1500*time.Millisecond)
		first := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		start := time.Now()
		second := begin(func() (*holdfast.Hold, error) { return w.lock(c).TryLock(ctx) })
		go func() { _ = outer.Unlock() }()
		inner := <-first
		ok(t, inner.err)
		if err := (<-second).err; !errors.As(err, new(*holdfast.BackendError)) {
			t.Errorf("TryLock: %v", err)
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("TryLock took %v", took)
		}
		d.SetFaults(nil)
		unlock(t, inner.hold)
		time.Sleep(time.Minute)
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
