package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/script"
)

// adopt is Adopt of every kind.
func (c *Client) adopt(ctx context.Context, k *kind, options []LockOption) (*Hold, error) {
	a, waiting, leave, err := c.enter(ctx, k, true, options)
	if err != nil {
		return nil, err
	}
	defer leave()
	t := a.tenure
	t.lives(a.lease + c.config.timeout)
	o := c.order(waiting, k.renew(t.owner, t.count(), a.lease))
	if o.err != nil {
		t.freeOp() // what was asked for is harmless, whenever it takes effect
		return nil, a.failure(waiting, o)
	}
	return a.adopted(waiting, o)
}

// adopted makes the hold of what stands in Redis. Op is held, and freed.
func (a *acquisition) adopted(ctx context.Context, o outcome) (*Hold, error) {
	t := a.tenure
	a.adopting = true
	count, err := o.answer.Int(0)
	if err != nil {
		t.freeOp()
		return nil, &BackendError{Op: "renew", Name: a.kind.name, MayHaveRun: true, Err: err}
	}
	if count == 0 {
		t.vanished()
		t.freeOp()
		return nil, problem(a.kind.name, "there is nothing to adopt", ErrNotHeld)
	}
	ch, ok := t.oneOfTheirs(int(count))
	if !ok {
		t.freeOp()
		return nil, problem(a.kind.name, "each of its holds is handed out here already", ErrInvalidOwner)
	}
	if !a.wantsToken() {
		o.answer.Rest = nil // the count, where a grant has its token
		return a.granted(o, ch)
	}
	// Another token, greater than the one that it was taken with.
	o = a.client.order(ctx, a.kind.take(wish{change: ch, owner: t.owner, lease: a.lease, token: true}))
	switch {
	case o.err != nil:
		t.freeOp()
		return nil, a.failure(ctx, o)
	case o.answer.Code != script.Done:
		t.freeOp()
		return nil, problem(a.kind.name, "it changed hands meanwhile", ErrNotHeld)
	}
	return a.granted(o, ch)
}

// oneOfTheirs is the change that takes over a count which is another process's:
// in Redis there is none. It reports false if all are ours.
func (t *tenure) oneOfTheirs(count int) (change, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 {
		t.lost = nil
	}
	return change{from: count, to: count, base: count - t.ours - 1}, count > t.ours
}
