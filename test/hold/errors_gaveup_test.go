package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Whose context ends while another holds the lock is told who that is, and its error is still the context's alone.
func TestGaveUpSaysWhoHoldsIt(t *testing.T) {
	each(t, kinds, []bool{false, true}, func(s *stage, several bool) {
		open := func(c *holdfast.Client, lock func(c *holdfast.Client) kit.AnyLock) holdfast.Locker {
			if several {
				return holdfast.NewMultiLock(lock(c), s.Mutex(c, "{x}2"))
			}
			return lock(c)
		}
		gaveUp := func(err, is error, text string) {
			s.Helper()
			var locked *holdfast.LockedError
			if !errors.Is(err, is) || errors.Is(err, holdfast.ErrLocked) || !errors.As(err, &locked) || locked.Holder.IsZero() ||
				!strings.Contains(err.Error(), text) {
				s.Errorf("%v, of %+v", err, locked)
			}
		}
		other, _ := s.Known()
		c, _ := s.Known()
		held, l := s.must(open(other, s.Rival).Lock(background)), open(c, s.World.Lock)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		gaveUp(errOf(l.Lock(ctx)), context.DeadlineExceeded, ": the caller gave up: held by another owner: billing@web-3 pid 4711, ")

		cancelled, end := context.WithCancelCause(background)
		cause, start := errors.New("a cause"), time.Now()
		time.AfterFunc(time.Second, func() { end(cause) })
		err := errOf(l.Lock(cancelled))
		gaveUp(err, context.Canceled, ": the caller gave up: held by another owner: ")
		kit.WantError(s.T, err, cause)
		s.within(start, time.Second, time.Second)
		s.unlock(held)

		// The holder is another call of the same client, as when the wrong context is used for nesting.
		held = s.must(open(c, s.Rival).Lock(background))
		ctx, cancel = context.WithTimeout(background, time.Second)
		defer cancel()
		err = errOf(l.Lock(ctx))
		gaveUp(err, context.DeadlineExceeded, "held by another call of this client, ")
		if !strings.HasSuffix(err.Error(), "; to nest in it, lock with the context of its hold") {
			s.Error(err)
		}
		err = errOf(l.TryLock(background))
		if !errors.Is(err, holdfast.ErrLocked) || !strings.Contains(err.Error(), "another call of this client") {
			s.Error(err)
		}
		s.unlock(held)
	})
}

// The same of permits.
func TestGaveUpSaysWhichPermitsAreMissing(t *testing.T) {
	fake(t, func(s *stage) {
		permits, counter := s.c.NewPermitSemaphore("s"), s.c.NewUnleasedSemaphore("u")
		kit.OK(s.T, errOf(permits.TrySetPermits(background, 1)), errOf(counter.TrySetPermits(background, 1)))
		held := s.must(permits.Lock(background))
		for _, acquire := range []func(context.Context) error{
			func(ctx context.Context) error { return errOf(permits.Lock(ctx)) },
			func(ctx context.Context) error { return counter.Acquire(ctx, 2) },
		} {
			ctx, cancel := context.WithTimeout(background, time.Second)
			err := acquire(ctx)
			cancel()
			var missing *holdfast.PermitsError
			if !errors.As(err, &missing) || !errors.As(err, new(*holdfast.LockedError)) || missing.Wanted == 0 ||
				errors.Is(err, holdfast.ErrNoPermits) || !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("%v, of %+v", err, missing)
			}
		}
		s.unlock(held)
		kit.OK(s.T, errOf(permits.Delete(background)), errOf(counter.Delete(background)))
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
	})
}

// A loss that the work returns as its own error, as in the first example, is said once.
func TestLossIsSaidOnce(t *testing.T) {
	rows(t, fake, map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex":   func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"permits": func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x", holdfast.Permits(1)) },
		"several": func(c *holdfast.Client) holdfast.Locker { return holdfast.NewMultiLock(kit.Mutexes(c, "x", "{x}2")...) },
	}, func(s *stage, open func(c *holdfast.Client) holdfast.Locker) {
		wantOnce := func(what string, err error) {
			for _, name := range []string{"x", "{x}2", "x+{x}2"} {
				if n := strings.Count(fmt.Sprint(err), fmt.Sprintf("%q: the hold was lost", name)); n > 1 {
					s.Errorf("%s: the loss of %s, %d times: %v", what, name, n, err)
				}
			}
			kit.WantError(s.T, err, holdfast.ErrLost)
		}
		work := func(ctx context.Context, _ *holdfast.Hold) error {
			s.Do("FLUSHALL")
			<-ctx.Done()
			return fmt.Errorf("the work: %w", context.Cause(ctx))
		}
		wantOnce("Do", holdfast.Do(background, open(s.c), work))

		ctx, cancel := context.WithCancel(background)
		var told error
		hooks := holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) {
			told = e.Err
			cancel()
		}})
		kit.WantError(s.T, holdfast.Lead(ctx, open(s.c), work, hooks), context.Canceled)
		wantOnce("Lead", told)
		s.Do("FLUSHALL")
		time.Sleep(time.Minute)
	})
}
