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
		if w.Kind.Shared {
			return
		}
		ctx, cancel := context.WithCancelCause(background)
		var leading, most, terms atomic.Int32
		work := func(ctx context.Context, _ *holdfast.Hold) error {
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
			kit.WantError(t, <-ended, why)
		}
	})
}

// What f returns ends Lead or not.
func TestLeadEnds(t *testing.T) {
	var told atomic.Int32
	fake(t, func(s *stage) {
		reason := errors.New("reason")
		lead := func(wantErr error, wantTerms int, f func(term int) error) {
			s.Helper()
			terms := 0
			err := holdfast.Lead(background, s.x, func(context.Context, *holdfast.Hold) error {
				terms++
				return f(terms)
			})
			if !errors.Is(err, wantErr) || terms != wantTerms {
				s.Errorf("%v after %d terms, want %v after %d", err, terms, wantErr, wantTerms)
			}
		}
		lead(nil, 1, func(int) error { return nil })
		lead(nil, 1, func(int) error { return holdfast.Stop(nil) })
		lead(reason, 1, func(int) error { return holdfast.Stop(reason) })
		start := time.Now()
		lead(nil, 10, func(term int) error {
			if term < 10 {
				return reason
			}
			return nil
		})
		kit.Took(s.T, time.Since(start), 10*time.Second, time.Minute, "ten terms took %v")
		if n := told.Load(); n != 9 {
			s.Errorf("told %d times", n)
		}
		lead(nil, 2, func(term int) error { // a stop that comes after a loss is no stop
			if term == 1 {
				kit.Force(s.T, s.theirs)
				return holdfast.Stop(reason)
			}
			return nil
		})
		wantPanic(s.T, func() { lead(nil, 0, func(int) error { panic("told") }) })
		s.Unlock(s.Must(s.x.TryLock(background)))

		kit.Away(s.d) // for a while
		time.AfterFunc(time.Minute, func() { s.d.SetFaults(nil) })
		lead(nil, 1, func(int) error { return nil })
		kit.WantError(s.T, holdfast.Lead(background, s.x, nil, nil), holdfast.ErrInvalid)
		kit.WantError(s.T, holdfast.Lead(background, s.c.NewMutex("a}b"), nil), holdfast.ErrInvalid)
		ended, end := context.WithCancel(background)
		end()
		kit.WantError(s.T, holdfast.Lead(ended, s.x, nil), context.Canceled)
		time.AfterFunc(time.Second, func() { _ = s.c.Close() })
		kit.WantError(s.T, holdfast.Lead(background, s.x, func(ctx context.Context, _ *holdfast.Hold) error {
			<-ctx.Done()
			return nil
		}), holdfast.ErrClosed)
	}, holdfast.WithHooks(holdfast.Hooks{OnError: func(context.Context, holdfast.Event) { told.Add(1) }}))
}
