package gocronlock

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// Task is what Guard takes and returns: a function that gocron.NewTask takes. gocron gives it
// the context of the job.
type Task = func(ctx context.Context) error

// runUnder calls f with a context that ends with ctx, and with the hold. If the hold has
// ended when f returns, the error says why.
func runUnder(ctx context.Context, hold *holdfast.Hold, f Task) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	held := hold.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	if held.Err() != nil {
		return context.Cause(held)
	}
	err := f(ctx)
	if lost := context.Cause(held); errors.Is(lost, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrLost) {
		return errors.Join(err, lost)
	}
	return err
}
