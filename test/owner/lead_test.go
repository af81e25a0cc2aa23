package owner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One candidate leads at a time; another follows when the leader is cut off, whose work
// has ended by then; and the first one campaigns again when it is back.
func TestLeadFollows(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Shared() {
			return
		}
		ctx, cancel := context.WithCancelCause(background)
		var leading, most, terms atomic.Int32
		work := func(ctx context.Context, h *holdfast.Hold) error {
			most.Store(max(most.Load(), leading.Add(1)))
			terms.Add(1)
			<-ctx.Done()
			leading.Add(-1)
			return errors.New("stopped in the middle") // which counts as nothing
		}
		ended := make(chan error, 3)
		drivers := make([]*memdriver.Driver, 3)
		for i := range drivers {
			c, d := w.Client()
			drivers[i] = d
			go func() { ended <- holdfast.Lead(ctx, w.Lock(c), work, holdfast.RenewedLease(6*time.Second)) }()
		}
		for range 2 { // each round ends at least one term
			for _, d := range drivers {
				time.Sleep(10 * time.Second)
				kit.Away(d)
				time.Sleep(10 * time.Second)
				d.SetFaults(nil)
			}
		}
		time.Sleep(20 * time.Second)
		if leading.Load() != 1 || most.Load() != 1 || terms.Load() < 3 {
			t.Errorf("%d lead, %d at most; %d terms", leading.Load(), most.Load(), terms.Load())
		}
		why := errors.New("enough")
		cancel(why)
		for range drivers {
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("Lead: %v", err)
			}
		}
	})
}

// What f returns ends Lead or not.
func TestLeadEnds(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var told atomic.Int32
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnError: func(context.Context, holdfast.Event) { told.Add(1) }}))
		mu, reason := c.NewMutex("x"), errors.New("reason")
		terms := 0
		lead := func(f func() error) error {
			terms = 0
			return holdfast.Lead(background, mu, func(context.Context, *holdfast.Hold) error {
				terms++
				return f()
			})
		}
		if err := lead(func() error { return nil }); err != nil || terms != 1 {
			t.Error(err, terms)
		}
		if err := lead(func() error { return holdfast.Stop(reason) }); !errors.Is(err, reason) || terms != 1 {
			t.Error(err, terms)
		}
		if err := lead(func() error { return holdfast.Stop(nil) }); err != nil || terms != 1 {
			t.Error(err, terms)
		}
		start := time.Now()
		err := lead(func() error {
			if terms < 10 {
				return reason
			}
			return nil
		})
		if took := time.Since(start); err != nil || terms != 10 || took < 10*time.Second || took > time.Minute || told.Load() != 9 {
			t.Errorf("%v, %d terms in %v, told %d", err, terms, took, told.Load())
		}

		// A stop that comes after a loss is no stop.
		tool, _ := w.Client()
		err = lead(func() error {
			if terms == 1 {
				kit.Force(t, tool.NewMutex("x"))
				return holdfast.Stop(reason)
			}
			return nil
		})
		if err != nil || terms != 2 {
			t.Error(err, terms)
		}

		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = lead(func() error { panic("oops") })
		}()
		kit.Unlock(t, kit.Must(t)(mu.TryLock(background)))

		// Redis is away for a while.
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		time.AfterFunc(time.Minute, func() { d.SetFaults(nil) })
		if err := lead(func() error { return nil }); err != nil || terms != 1 {
			t.Error(err, terms)
		}
		for _, err := range []error{
			holdfast.Lead(background, mu, nil, nil),
			holdfast.Lead(background, c.NewMutex("a}b"), nil),
		} {
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		ended, end := context.WithCancel(background)
		end()
		kit.WantError(t, holdfast.Lead(ended, mu, nil), context.Canceled)
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		err = holdfast.Lead(background, mu, func(ctx context.Context, _ *holdfast.Hold) error {
			<-ctx.Done()
			return nil
		})
		kit.WantError(t, err, holdfast.ErrClosed)
	})
}
