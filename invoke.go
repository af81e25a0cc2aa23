package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/script"
)

// invoke is one call of a user's, from the checks to the errors. Of one that its caller gave up while it was under
// way nobody knows whether it has its effect; the error is that of the context all the same, as Redis has not failed.
func invoke(ctx context.Context, k *kind, op string, request script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	c := k.client
	if err := c.begin(ctx, op, k.name); err != nil {
		return call.Result{}, err
	}
	defer c.tasks.End()
	open, stop := c.untilClosing(ctx)
	defer stop()
	res := c.calls.Do(open, request)
	switch {
	case res.Err == nil:
		return res, notAnnounced(k.name, request, res)
	case endedByCaller(ctx):
		return res, gaveUp(ctx, k.name)
	case c.closing.Err() != nil:
		return res, problem(k.name, "", ErrClosed)
	default:
		return res, backendError(op, k.name, res)
	}
}
