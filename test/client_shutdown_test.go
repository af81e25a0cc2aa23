package test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// beginShutdown begins Shutdown, and sends what it returns.
func beginShutdown(c *holdfast.Client) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Shutdown(background) }()
	return done
}

// Shutdown waits for what is held, which is renewed meanwhile and may be nested; nothing
// new is acquired, and who waits is told.
func TestShutdown(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, _ := w.client()
		h := must(t)(w.lock(c).Lock(background))
		busy := must(t)(other.NewMutex("busy").Lock(background))
		waited := make(chan error)
		go func() {
			_, err := c.NewMutex("busy").Lock(background)
			waited <- err
		}()
		synctest.Wait()
		done := beginShutdown(c)
		wantError(t, <-waited, holdfast.ErrClosed)
		_, err := c.NewMutex("new").TryLock(background)
		wantError(t, err, holdfast.ErrClosed)
		wantError(t, c.NewUnleasedSemaphore("s").TryAcquire(background, 1), holdfast.ErrClosed)
		if w.kind.nests {
			unlock(t, must(t)(w.lock(c).Lock(h.Context())))
		}
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(2 * time.Minute):
		}
		if err := h.Context().Err(); err != nil {
			t.Error(context.Cause(h.Context()))
		}
		start := time.Now()
		unlock(t, h)
		ok(t, <-done)
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("it noticed after %v", took)
		}
		unlock(t, busy)
	})
}

// Shutdown is bounded by its context; what is left then is given back. Lost holds are not
// waited for.
func TestShutdownIsBounded(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := must(t)(c.NewMutex("x").Lock(background))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		start := time.Now()
		wantError(t, c.Shutdown(ctx), context.DeadlineExceeded)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		wantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
		w.wantReply("0", "EXISTS", "x")

		c, _ = w.client()
		_ = must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		start = time.Now()
		ok(t, c.Shutdown(background))
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A writer may read, and downgrade, while the client shuts down.
func TestShutdownLetsWritersRead(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background))
		done := beginShutdown(c)
		synctest.Wait()
		unlock(t, must(t)(m.RLock(write.Context())))
		read := must(t)(m.Downgrade(write))
		select {
		case err := <-done:
			t.Errorf("it did not wait for the reader: %v", err)
		case <-time.After(time.Minute):
		}
		unlock(t, read)
		ok(t, <-done)
	})
}

// Whether an acquire goes on through Shutdown is decided when it is made: it is had though there is nothing left to nest it in,
// and Shutdown waits for it.
func TestShutdownLetsInWhatWasNested(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other := must(t)(c.NewMutex("y").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		outer := must(t)(c.NewMutex("x").Lock(ctx))
		inner := must(t)(c.NewMutex("x").Lock(ctx))
		unlocked := make(chan error)
		done := beginShutdown(c)
		synctest.Wait()
		once(d, "release", memdriver.Fault{DelayReply: 1500 * time.Millisecond})
		go func() { unlocked <- inner.Unlock() }()
		synctest.Wait()
		waits := begin(func() (*holdfast.Hold, error) { return c.NewMutex("x").Lock(ctx) })
		ok(t, outer.Unlock(), <-unlocked)
		got := <-waits
		ok(t, got.err)
		unlock(t, other)
		_, err := c.NewMutex("x").TryLock(holdfast.WithOwner(background, c.NewOwner()))
		wantError(t, err, holdfast.ErrClosed)
		unlock(t, got.hold)
		ok(t, <-done)
	})
}

// One that has nothing to nest in when it is made ends when Shutdown begins, though its owner has the lock by then.
func TestShutdownEndsWhatWasNotNested(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		first := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		second := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		third := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		one := <-first
		ok(t, one.err)
		over := beginShutdown(c)
		wantError(t, (<-third).err, holdfast.ErrClosed)
		if two := <-second; two.err == nil {
			unlock(t, two.hold) // it was on its way
		} else {
			wantError(t, two.err, holdfast.ErrClosed)
		}
		unlock(t, one.hold)
		ok(t, <-over)
	})
}

// One whose owner has lost the lock is not nested.
func TestShutdownLetsNothingNestInWhatIsLost(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		kept := must(t)(w.mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		lost := must(t)(w.lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		<-lost.Context().Done()
		over := beginShutdown(c)
		synctest.Wait()
		_, err := w.lock(c).Lock(ctx)
		wantError(t, err, holdfast.ErrClosed)
		wantError(t, lost.Unlock(), holdfast.ErrLost)
		unlock(t, kept)
		ok(t, <-over)
	})
}

// One that is nested waits for its turn through Shutdown, and until Close.
func TestShutdownAwaitsTheTurnOfWhatIsNested(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		outer := must(t)(w.lock(c).Lock(ctx))
		inner := must(t)(w.lock(c).Lock(ctx))
		once(d, "release", memdriver.Fault{DelayReply: time.Second})
		unlocked := make(chan error)
		go func() { unlocked <- inner.Unlock() }()
		synctest.Wait()
		waits := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(ctx) })
		over := beginShutdown(c)
		ok(t, <-unlocked)
		got := <-waits
		ok(t, got.err)
		unlock(t, got.hold)
		unlock(t, outer)
		ok(t, <-over)
	})
}

// Permits sets how many there are, once, if nobody has.
func TestPermitsOption(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		seen := count(d)
		s := c.NewPermitSemaphore("x", holdfast.Permits(3))
		h := must(t)(s.Acquire(background, 2))
		unlock(t, must(t)(s.Lock(background)))
		if n := seen.of("set"); n != 1 {
			t.Errorf("set %d times", n)
		}
		_, err := c.NewPermitSemaphore("x", holdfast.Permits(5)).TryAcquire(background, 2)
		wantError(t, err, holdfast.ErrNoPermits)
		unlock(t, h)
		u := c.NewUnleasedSemaphore("y", holdfast.Permits(2))
		ok(t, u.Acquire(background, 2, holdfast.Wait(time.Second)), u.Release(2))
		for _, bad := range []holdfast.SemaphoreOption{nil, holdfast.Permits(0), holdfast.Permits(-1), holdfast.Permits(holdfast.MaxCount + 1)} {
			_, err := c.NewPermitSemaphore("x", bad).Lock(background)
			wantError(t, err, holdfast.ErrInvalid)
			wantError(t, c.NewUnleasedSemaphore("y", bad).TryAcquire(background, 1), holdfast.ErrInvalid)
		}
		time.Sleep(5 * time.Minute) // the calls are forgotten
		w.do("DEL", "x", "y")
		for _, acquire := range []func() error{
			func() error {
				_, err := c.NewPermitSemaphore("z", holdfast.Permits(3)).TryAcquire(background, 1, holdfast.MinHold(time.Second))
				return err
			},
			func() error {
				ended, end := context.WithCancel(background)
				end()
				return c.NewUnleasedSemaphore("z", holdfast.Permits(3)).Acquire(ended, 1)
			},
		} {
			if err := acquire(); err == nil {
				t.Error("no error")
			}
			w.wantReply("0", "EXISTS", "z") // nothing was sent
		}
	})
}

// TestShutdownBeforeTheNextAttempt: nobody has answered the first one, and no other is made.
func TestShutdownBeforeTheNextAttempt(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		kept := must(t)(w.mutex(c, "z").Lock(background))
		once(d, "acquire", memdriver.Fault{LoseRequest: true})
		waits := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(background) })
		time.Sleep(100 * time.Millisecond)
		over := beginShutdown(c)
		got := <-waits
		if wantError(t, got.err, holdfast.ErrClosed); got.err == nil {
			unlock(t, got.hold)
		}
		unlock(t, kept)
		ok(t, <-over)
	})
}
