package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/script"
)

// ask is one call of a user's, from the checks to the errors.
func (c *Client) ask(ctx context.Context, k *kind, op string, ask script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	if timeIsUp(ctx) {
		return call.Result{}, &BackendError{Op: op, Name: k.name, Err: call.ErrNoAnswer}
	}
	if err := c.begin(ctx, k.name); err != nil {
		return call.Result{}, err
	}
	defer c.tasks.End()
	open, stop := c.untilClosing(ctx)
	defer stop()
	o := c.calls.Do(open, ask)
	switch {
	case o.Err == nil:
		return o, untold(k.name, ask, o)
	case ctx.Err() != nil && !timeIsUp(ctx):
		return o, gaveUp(ctx, k.name)
	case c.closing.Err() != nil:
		return o, problem(k.name, "", ErrClosed)
	default:
		return o, backendError(op, k.name, o)
	}
}

// withinTimeout bounds a call that is several calls by the client's timeout.
func (c *Client) withinTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.config.timeout, call.ErrNoAnswer)
}

// timeIsUp reports whether it was withinTimeout that has ended ctx.
func timeIsUp(ctx context.Context) bool { return errors.Is(context.Cause(ctx), call.ErrNoAnswer) }
