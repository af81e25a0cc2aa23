package test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// The context of one call may have ended with the error of another, as those of a group do. That is its cause, and nothing
// that this call, or its client, has come to itself.
func TestAContextEndsWithAnotherCallsError(t *testing.T) {
	causes := map[string]func(t *testing.T, w *world) error{
		"no answer": func(t *testing.T, w *world) error {
			c, d := w.client()
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			_, err := c.NewMutex("other").TryLock(background)
			var backend *holdfast.BackendError
			if !errors.As(err, &backend) {
				t.Fatal(err)
			}
			return err
		},
		"closed": func(t *testing.T, w *world) error {
			c, _ := w.client()
			c.Close()
			_, err := c.NewMutex("other").TryLock(background)
			wantError(t, err, holdfast.ErrClosed)
			return err
		},
	}
	for name, other := range causes {
		t.Run(name, func(t *testing.T) {
			fakeKinds(t, func(t *testing.T, w *world) {
				c, d := w.client()
				l, cause := w.lock(c), other(t, w)
				h := must(t)(l.Lock(background))
				ended, end := context.WithCancelCause(background)
				end(cause)
				for what, call := range map[string]func() error{
					"Lock":        func() error { _, err := l.Lock(ended); return err },
					"TryLock":     func() error { _, err := l.TryLock(ended); return err },
					"Extend":      func() error { return h.Extend(ended, time.Minute) },
					"Inspect":     func() error { _, err := l.Inspect(ended); return err },
					"ForceUnlock": func() error { _, err := l.ForceUnlock(ended); return err },
				} {
					t.Log(what)
					wantError(t, call(), context.Canceled, cause)
				}
				unlock(t, h)

				// While it waits for its owner's turn.
				ctx, end := context.WithCancelCause(holdfast.WithOwner(background, c.NewOwner()))
				once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
				first := begin(func() (*holdfast.Hold, error) { return l.Lock(ctx) })
				second := begin(func() (*holdfast.Hold, error) { return l.Lock(ctx, holdfast.Wait(time.Minute)) })
				began := time.Now()
				end(cause)
				synctest.Wait()
				for _, call := range []<-chan result{first, second} {
					got := <-call
					wantError(t, got.err, context.Canceled, cause)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("they gave up %v late", took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
