package owner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Shutdown waits for what is held, which is renewed meanwhile and may be nested; nothing
// new is acquired, and who waits is told.
func TestShutdown(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		busy := kit.Must(t)(other.NewMutex("busy").Lock(background))
		waited := make(chan error)
		go func() {
			_, err := c.NewMutex("busy").Lock(background)
			waited <- err
		}()
		synctest.Wait()
		done := kit.BeginShutdown(c)
		kit.WantError(t, <-waited, holdfast.ErrClosed)
		_, err := c.NewMutex("new").TryLock(background)
		kit.WantError(t, err, holdfast.ErrClosed)
		kit.WantError(t, c.NewUnleasedSemaphore("s").TryAcquire(background, 1), holdfast.ErrClosed)
		if w.Kind.Nests {
			kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(h.Context())))
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
		kit.Unlock(t, h)
		kit.OK(t, <-done)
		kit.Took(t, time.Since(start), 0, 200*time.Millisecond, "it noticed after %v")
		kit.Unlock(t, busy)
	})
}

// Shutdown is bounded by its context; what is left then is given back. Lost holds are not
// waited for.
func TestShutdownIsBounded(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(c.NewMutex("x").Lock(background))
		for i := range 12 {
			kit.Must(t)(c.NewMutex(fmt.Sprintf("{x}%d", 10+i)).Lock(background))
		}
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		start := time.Now()
		err := c.Shutdown(ctx)
		kit.WantError(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), `13 still held, of ["x" "{x}10" `) || strings.Contains(err.Error(), "{x}19") {
			t.Error(err)
		}
		if n := strings.Count(err.Error(), context.DeadlineExceeded.Error()); n != 1 {
			t.Errorf("it says %d times that the time was over: %v", n, err)
		}
		kit.Took(t, time.Since(start), time.Minute, time.Minute, "it took %v")
		kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
		w.WantReply("0", "EXISTS", "x")

		c, _ = w.Client()
		_ = kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		start = time.Now()
		kit.OK(t, c.Shutdown(background))
		kit.Took(t, time.Since(start), 0, time.Second, "it took %v")
	})
}

// A writer may read, and downgrade, while the client shuts down.
func TestShutdownLetsWritersRead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		done := kit.BeginShutdown(c)
		synctest.Wait()
		kit.Unlock(t, kit.Must(t)(m.RLock(write.Context())))
		read := kit.Must(t)(m.Downgrade(write))
		select {
		case err := <-done:
			t.Errorf("it did not wait for the reader: %v", err)
		case <-time.After(time.Minute):
		}
		kit.Unlock(t, read)
		kit.OK(t, <-done)
	})
}

// Whether an acquire goes on through Shutdown is decided when it is made: it is had though there is nothing left to nest it in,
// and Shutdown waits for it.
func TestShutdownLetsInWhatWasNested(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other := kit.Must(t)(c.NewMutex("y").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		outer := kit.Must(t)(c.NewMutex("x").Lock(ctx))
		inner := kit.Must(t)(c.NewMutex("x").Lock(ctx))
		unlocked := make(chan error)
		done := kit.BeginShutdown(c)
		synctest.Wait()
		kit.Once(d, "release", memdriver.Fault{DelayReply: 1500 * time.Millisecond})
		go func() { unlocked <- inner.Unlock() }()
		synctest.Wait()
		waits := kit.Begin(func() (*holdfast.Hold, error) { return c.NewMutex("x").Lock(ctx) })
		kit.OK(t, outer.Unlock(), <-unlocked)
		got := <-waits
		kit.OK(t, got.Err)
		kit.Unlock(t, other)
		kit.Fails(t, holdfast.ErrClosed)(c.NewMutex("x").TryLock(holdfast.WithOwner(background, c.NewOwner())))
		kit.Unlock(t, got.Hold)
		kit.OK(t, <-done)
	})
}

// One that has nothing to nest in when it is made ends when Shutdown begins, though its owner has the lock by then.
func TestShutdownEndsWhatWasNotNested(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		first := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		second := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		third := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		one := <-first
		kit.OK(t, one.Err)
		over := kit.BeginShutdown(c)
		kit.WantError(t, (<-third).Err, holdfast.ErrClosed)
		if two := <-second; two.Err == nil {
			kit.Unlock(t, two.Hold) // it was on its way
		} else {
			kit.WantError(t, two.Err, holdfast.ErrClosed)
		}
		kit.Unlock(t, one.Hold)
		kit.OK(t, <-over)
	})
}

// One whose owner has lost the lock is not nested.
func TestShutdownLetsNothingNestInWhatIsLost(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		kept := kit.Must(t)(w.Mutex(c, "z").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		lost := kit.Must(t)(w.Lock(c).Lock(ctx, holdfast.FixedLease(time.Second)))
		<-lost.Context().Done()
		over := kit.BeginShutdown(c)
		synctest.Wait()
		kit.Fails(t, holdfast.ErrClosed)(w.Lock(c).Lock(ctx))
		kit.WantError(t, lost.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, kept)
		kit.OK(t, <-over)
	})
}

// One that is nested waits for its turn through Shutdown, and until Close.
func TestShutdownAwaitsTheTurnOfWhatIsNested(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		outer := kit.Must(t)(w.Lock(c).Lock(ctx))
		inner := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Once(d, "release", memdriver.Fault{DelayReply: time.Second})
		unlocked := kit.Aside(inner.Unlock)
		waits := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx) })
		over := kit.BeginShutdown(c)
		kit.OK(t, <-unlocked)
		got := <-waits
		kit.OK(t, got.Err)
		kit.Unlock(t, got.Hold)
		kit.Unlock(t, outer)
		kit.OK(t, <-over)
	})
}

// Permits sets how many there are, once, if nobody has.
func TestPermitsOption(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		s := c.NewPermitSemaphore("x", holdfast.Permits(3))
		h := kit.Must(t)(s.Acquire(background, 2))
		kit.Unlock(t, kit.Must(t)(s.Lock(background)))
		if n := seen.Of("set"); n != 1 {
			t.Errorf("set %d times", n)
		}
		_, err := c.NewPermitSemaphore("x", holdfast.Permits(5)).TryAcquire(background, 2)
		kit.WantError(t, err, holdfast.ErrNoPermits)
		kit.Unlock(t, h)
		u := c.NewUnleasedSemaphore("y", holdfast.Permits(2))
		kit.OK(t, u.Acquire(background, 2, holdfast.Wait(time.Second)), u.Release(2))
		for _, bad := range []holdfast.SemaphoreOption{nil, holdfast.Permits(0), holdfast.Permits(-1), holdfast.Permits(holdfast.MaxCount + 1)} {
			kit.Fails(t, holdfast.ErrInvalid)(c.NewPermitSemaphore("x", bad).Lock(background))
			kit.WantError(t, c.NewUnleasedSemaphore("y", bad).TryAcquire(background, 1), holdfast.ErrInvalid)
		}
		time.Sleep(5 * time.Minute) // the calls are forgotten
		w.Do("DEL", "x", "y")
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
			w.WantReply("0", "EXISTS", "z") // nothing was sent
		}
	})
}

// TestShutdownBeforeTheNextAttempt: nobody has answered the first one, and no other is made.
func TestShutdownBeforeTheNextAttempt(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kept := kit.Must(t)(w.Mutex(c, "z").Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{LoseRequest: true})
		waits := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background) })
		time.Sleep(100 * time.Millisecond)
		over := kit.BeginShutdown(c)
		got := <-waits
		if kit.WantError(t, got.Err, holdfast.ErrClosed); got.Err == nil {
			kit.Unlock(t, got.Hold)
		}
		kit.Unlock(t, kept)
		kit.OK(t, <-over)
	})
}
