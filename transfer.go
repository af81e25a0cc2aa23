package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// This file hands a hold over to another owner, usually another process's. The
// giver's Detach ends its own use without a release; the taker's Adopt puts an owner
// of its own in the place of the giver's, in one script. So no two processes ever
// change the count of one owner.

// Detach ends the hold without releasing the lock, for Adopt to take it over under
// the owner that Detach returns: in this process or another, which may be told by
// [Owner.String]. Nobody renews the lock until then, so it is lost if it is not
// adopted within its lease. The hold's context ends, and Unlock returns
// [ErrNotHeld].
//
// Detach waits, for the client's timeout at most, until no call for this hold is
// under way. If it returns an error, the hold stands as it was; unlock it. The error
// matches
//   - [ErrReentrant] if the owner has other holds of the lock, nested ones or on the
//     other side of a read-write lock;
//   - [ErrInvalidOwner] if the hold has no single owner that could be replaced: it
//     is one of several locks, or of permits, which are known by their ids;
//   - [ErrLost] or [ErrNotHeld] if the hold is no more;
//   - [*BackendError] if a call for it was still not answered after the timeout.
//
// Redisson has no counterpart.
func (h *Hold) Detach() (Owner, error) {
	if h.bundle != nil {
		return Owner{}, problem(h.Name(), "each of its parts has an owner", ErrInvalidOwner)
	}
	t := h.tenure
	c, k := t.kind.client, t.kind
	if k.adopt(wish{}, Owner{}).script == nil {
		return Owner{}, problem(k.name, "its permits have ids and no owner", ErrInvalidOwner)
	}
	if !c.tasks.Begin() { // Close has given it back
		return Owner{}, h.alive()
	}
	defer c.tasks.End()
	ctx, cancel := context.WithTimeout(c.life, c.config.timeout)
	defer cancel()
	if err := t.takeOp(ctx); err != nil {
		return Owner{}, &BackendError{Op: "detach", Name: k.name, Err: errNoAnswer}
	}
	defer t.freeOp()
	if !t.quiet(ctx) {
		return Owner{}, &BackendError{Op: "detach", Name: k.name, Err: errNoAnswer}
	}
	if k.twoSided && c.onOtherSide(t) {
		return Owner{}, problem(k.name, "its owner holds the other side, too", ErrReentrant)
	}
	if err := h.detach(); err != nil {
		return Owner{}, err
	}
	t.unref()
	return t.owner, nil
}

// quiet waits until no send for the tenure can have an effect any more. It reports
// false if ctx ends first. Op is held.
func (t *tenure) quiet(ctx context.Context) bool {
	t.mu.Lock()
	pending := t.pending
	t.mu.Unlock()
	t.kind.client.outlast(ctx, pending)
	if ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending, t.stood, t.leave = nil, 0, request{}
	return true
}

// onOtherSide reports whether the owner holds, or may hold, the other side of a
// read-write lock.
func (c *Client) onOtherSide(t *tenure) bool {
	other := tenureKey{t.kind.name, "read", t.owner}
	if t.kind.class == other.class {
		other.class = "write"
	}
	side := c.standing(other)
	if side == nil {
		return false
	}
	defer side.unref()
	return side.counts() > 0
}

// detach is Detach when nothing is under way.
func (h *Hold) detach() error {
	t := h.tenure
	c := t.kind.client
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := h.state(); err != nil {
		return err
	}
	if len(t.holds) != 1 || t.count != 1 {
		return problem(t.kind.name, "its owner has nested holds", ErrReentrant)
	}
	if !t.endWatch() {
		h.lost = &LostError{Name: t.kind.name, Reason: "its deadline has passed"}
		t.lost, h.lastDeadline = h.lost, t.deadline
		h.cancel(h.lost)
		return h.lost
	}
	h.ended = problem(t.kind.name, "this hold was detached", ErrNotHeld)
	delete(t.holds, h)
	t.setCount(0)
	h.cancel(nil)
	c.retire(tenureKey{t.kind.name, t.kind.class, t.owner}, later(t.keyEnd, time.Now().Add(c.config.lease)))
	return nil
}

// retire notes that nobody may lock as an owner whose hold was detached, for as
// long as that may stand in Redis: another process is about to replace the owner.
func (c *Client) retire(key tenureKey, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for old, end := range c.retired {
		if end.Before(now) {
			delete(c.retired, old)
		}
	}
	c.retired[key] = until
}

// detached reports whether a hold of the owner was detached and may still stand.
func (c *Client) detached(key tenureKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.retired[key])
}

// adopt is Adopt of every kind.
func (c *Client) adopt(ctx context.Context, k *kind, owner Owner, options []LockOption) (*Hold, error) {
	if owner == (Owner{}) {
		return nil, fmt.Errorf("holdfast: %w: there is nothing to adopt of the zero Owner", ErrInvalidOwner)
	}
	a, waiting, leave, err := c.enter(k.heldIn(ctx, c.NewOwner()), k, true, options)
	if err != nil {
		return nil, err
	}
	defer leave()
	a.op = "adopt"
	ch, _ := a.tenure.oneMore() // nothing is lost of an owner that is new
	answered := a.tenure.expect(a.lease)
	o := c.order(waiting, k.adopt(wish{change: ch, owner: a.tenure.owner, lease: a.lease, token: a.wantsToken()}, owner))
	answered(o)
	a.unknown = o.unknown
	c.pokeHolders(k) // one of them may be who held it
	switch {
	case o.err != nil:
	case o.answer.Code == script.Refused:
		o.err = problem(k.name, "there is nothing to adopt of "+owner.String(), ErrNotHeld)
	case o.answer.Code == script.Upgrade:
		o.err = problem(k.name, owner.String()+" holds the other side, too", ErrReentrant)
	}
	return a.conclude(waiting, o, ch)
}
