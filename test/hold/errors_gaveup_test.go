package hold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Whose context ends while another holds the lock is told who that is, and its error is still the context's alone.
func TestGaveUpSaysWhoHoldsIt(t *testing.T) {
	type lock func(c *holdfast.Client) holdfast.Locker
	for name, open := range map[string]lock{
		"mutex": func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"fair":  func(c *holdfast.Client) holdfast.Locker { return c.NewFairMutex("x") },
		"polling": func(c *holdfast.Client) holdfast.Locker {
			return c.NewMutex("x", holdfast.Polling(time.Millisecond, time.Second))
		},
		"write": func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("x") },
		"several": func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("{x}2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				other, _ := w.Known()
				c, _ := w.Known()
				held := kit.Must(t)(open(other).Lock(background))
				ctx, cancel := context.WithTimeout(background, time.Second)
				defer cancel()
				_, err := open(c).Lock(ctx)
				wantRefusal(t, err, context.DeadlineExceeded, ": the caller gave up: held by another owner: billing@web-3 pid 4711, ")

				cancelled, end := context.WithCancelCause(background)
				time.AfterFunc(time.Second, func() { end(errTest) })
				start := time.Now()
				_, err = open(c).Lock(cancelled)
				wantRefusal(t, err, context.Canceled, ": the caller gave up: held by another owner: ")
				if !errors.Is(err, errTest) || time.Since(start) != time.Second {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				kit.Unlock(t, held)

				// The holder is another call of the same client, as when the wrong context is used for nesting.
				held = kit.Must(t)(open(c).Lock(background))
				ctx, cancel = context.WithTimeout(background, time.Second)
				defer cancel()
				_, err = open(c).Lock(ctx)
				wantRefusal(t, err, context.DeadlineExceeded, "held by another call of this client, ")
				if !strings.HasSuffix(err.Error(), "; to nest in it, lock with the context of its hold") {
					t.Error(err)
				}
				_, err = open(c).TryLock(background)
				if !errors.Is(err, holdfast.ErrLocked) || !strings.Contains(err.Error(), "another call of this client") {
					t.Error(err)
				}
				kit.Unlock(t, held)
			})
		})
	}
}

var errTest = errors.New("a cause")

func wantRefusal(t *testing.T, err, is error, text string) {
	t.Helper()
	var locked *holdfast.LockedError
	if !errors.Is(err, is) || errors.Is(err, holdfast.ErrLocked) || !errors.As(err, &locked) || locked.Holder.IsZero() || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, of %+v", err, locked)
	}
}

// The same of permits.
func TestGaveUpSaysWhichPermitsAreMissing(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s, u := c.NewPermitSemaphore("s"), c.NewUnleasedSemaphore("u")
		for _, set := range []func(context.Context, int) (bool, error){s.TrySetPermits, u.TrySetPermits} {
			if _, err := set(background, 1); err != nil {
				t.Fatal(err)
			}
		}
		held := kit.Must(t)(s.Lock(background))
		for _, acquire := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := s.Lock(ctx); return err },
			func(ctx context.Context) error { return u.Acquire(ctx, 2) },
		} {
			ctx, cancel := context.WithTimeout(background, time.Second)
			err := acquire(ctx)
			cancel()
			var missing *holdfast.PermitsError
			var locked *holdfast.LockedError
			if !errors.As(err, &missing) || !errors.As(err, &locked) || missing.Wanted == 0 || errors.Is(err, holdfast.ErrNoPermits) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, of %+v", err, missing)
			}
		}
		kit.Unlock(t, held)
		for _, remove := range []func(context.Context) (bool, error){s.Delete, u.Delete} {
			if _, err := remove(background); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
	})
}
