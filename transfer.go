package holdfast

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file hands a hold over to another owner, usually another process's. The
// giver's Detach ends its own use without a release; the taker's Adopt puts an owner
// of its own in the place of the giver's, in one script. So no two processes ever
// change the count of one owner.

// Detach ends the hold without releasing the lock, for Adopt to take it over under
// the owner that Detach returns: in this process or another, which may be told by
// [Owner.String]. Nobody renews the lock until then, so it is lost if it is not
// adopted within its lease. The hold's context ends, Unlock returns [ErrNotHeld], and
// the owner is not to be used again: Lock under it returns [ErrInvalid].
//
// No hook is told. Closing the client does not release what was detached.
//
// Detach waits, for the client's timeout at most, until no call for this hold is
// under way. After one of the first two errors and the last one the hold stands as it
// was; unlock it. The error matches
//   - [ErrReentrant] if the owner has other holds of the lock, nested ones or on the
//     other side of a read-write lock;
//   - [ErrInvalid] if the hold has no single owner that could be replaced: it
//     is one of several locks, or of permits, which are known by their ids; or [MinHold]
//     keeps it;
//   - [ErrLost], [ErrNotHeld] or [ErrClosed] if the hold is no more;
//   - [*BackendError] if a call for it was still not answered after the timeout.
//
// Redisson has no counterpart.
func (h *Hold) Detach() (Owner, error) { return h.held.detach() }

// notQuiet is the error of a Detach that has waited in vain for what is under way.
func (t *ownerState) notQuiet() error {
	return &BackendError{Op: "detach", Name: t.kind.name, Err: call.ErrNoAnswer}
}

// quiet waits until no attempt for the owner can have an effect any more. It reports
// false if ctx ends first. Op is held.
func (t *ownerState) quiet(ctx context.Context) bool {
	t.mu.Lock()
	pending := t.pending
	t.mu.Unlock()
	t.kind.client.calls.Outlast(ctx, pending)
	if ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending, t.stood, t.leave = nil, 0, script.Request{}
	return true
}

// otherSide sees to it that the owner does not hold the other side of a read-write
// lock, and will not until free is called.
func (c *Client) otherSide(ctx context.Context, t *ownerState) (free func(), err error) {
	side := t.onOtherSide()
	if side == nil {
		return func() {}, nil
	}
	defer func() {
		if err != nil {
			side.unref()
		}
	}()
	if side.takeOp(ctx) != nil {
		return nil, t.notQuiet()
	}
	quiet := side.quiet(ctx)
	switch {
	case !quiet:
		err = t.notQuiet()
	case side.counts() > 0:
		err = problem(t.kind.name, "its owner holds the other side, too", ErrReentrant)
	default:
		return func() { side.freeOp(); side.unref() }, nil
	}
	side.freeOp()
	return nil, err
}

// retirement is for how long nobody may lock as an owner whose hold was detached, after
// its key may have gone: another process's late request to replace it has no effect
// any more then, whatever that one's timeout is.
const retirement = 30 * time.Minute

// retired is an owner at a lock, on either side.
type retired struct {
	lock  heldKey
	owner Owner
}

// retire notes that nobody may lock as an owner until then: its hold was detached, and
// another process is about to replace it; or it is nobody's.
func (c *Client) retire(k *kind, owner Owner, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.retired) >= c.sweepAt { // not each time: there may be many
		now := time.Now()
		maps.DeleteFunc(c.retired, func(_ retired, end time.Time) bool { return end.Before(now) })
		c.sweepAt = 2*len(c.retired) + 16
	}
	c.retired[retired{k.heldKey(), owner}] = until
}

// detached reports whether a hold of the owner was detached and may still stand.
func (c *Client) detached(k *kind, owner Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.retired) > 0 && time.Now().Before(c.retired[retired{k.heldKey(), owner}])
}

// adopt is Adopt of every kind.
func (c *Client) adopt(ctx context.Context, k *kind, owner Owner, config lockConfig) (*Hold, error) {
	if owner == (Owner{}) {
		return nil, fmt.Errorf("holdfast: %w owner: there is nothing to adopt of the zero Owner", ErrInvalid)
	}
	started := time.Now()
	h, err := c.adoptWithoutHooks(ctx, k, owner, config)
	if err == nil {
		h.tellAcquired(time.Since(started))
	} else {
		c.tellRefused(ctx, k, config.hooks, started, err)
	}
	return h, err
}

// adoptWithoutHooks is adopt up to the hooks; see [Client.acquireWithoutHooks].
func (c *Client) adoptWithoutHooks(ctx context.Context, k *kind, owner Owner, config lockConfig) (*Hold, error) {
	a, waiting, leave, err := c.enter(k.heldIn(ctx, c.NewOwner(), nil), k, config)
	if err != nil {
		return nil, err
	}
	defer leave()
	a.op, a.caller = "adopt", ctx
	ch, _ := a.state.oneMoreCount() // nothing is lost of an owner that is new
	answered := a.state.expect(a.lease)
	o := c.calls.Do(waiting, k.lock.Adopt(protocol.Acquire{
		Owner: a.state.owner.String(), From: ch.from, To: ch.to, Lease: a.lease, Token: a.wantsToken(),
	}, owner.String()))
	answered(o)
	a.unknown = o.Unknown
	c.pokeHolders(k) // one of them may be who held it
	switch {
	case o.Err != nil:
	case o.Reply.Code == script.Refused:
		o.Err = problem(k.name, "there is nothing to adopt of "+owner.String(), ErrNotHeld)
	case o.Reply.Code == script.Upgrade:
		o.Err = problem(k.name, owner.String()+" holds both sides, and is not replaced on one of them", ErrReentrant)
	}
	return a.conclude(waiting, o, ch)
}
