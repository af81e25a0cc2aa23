package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// adopt is Adopt of every kind.
func (c *Client) adopt(ctx context.Context, k *kind, options []LockOption) (*Hold, error) {
	a, waiting, leave, err := c.enter(ctx, k, true, options)
	if err != nil {
		return nil, err
	}
	defer leave()
	o := c.order(waiting, k.askRenew(a.tenure.owner, a.lease))
	if o.err != nil {
		a.tenure.freeOp()
		return nil, a.failure(waiting, o)
	}
	return a.adopted(o)
}

// adopted makes the hold of what stands in Redis. Op is held, and freed.
func (a *acquisition) adopted(o outcome) (*Hold, error) {
	t := a.tenure
	count, err := o.answer.Int(0)
	if err != nil {
		t.freeOp()
		return nil, &BackendError{Op: "acquire", Name: a.kind.name, MayHaveRun: true, Err: err}
	}
	t.mu.Lock()
	here := len(t.holds)
	if here == 0 {
		t.lost = nil
	}
	if int(count) > here {
		t.base = int(count) - here - 1
	}
	t.mu.Unlock()
	switch {
	case count == 0:
		t.lose(watchdog.NotHeld.String())
		t.freeOp()
		return nil, problem(a.kind.name, "there is nothing to adopt", ErrNotHeld)
	case int(count) <= here:
		t.freeOp()
		return nil, problem(a.kind.name, "each of its holds is handed out here already", ErrInvalidOwner)
	}
	return a.granted(o, int(count))
}
