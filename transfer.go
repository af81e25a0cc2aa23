package holdfast

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file hands a hold over to another owner, usually another process's. The
// giver's Detach ends its own use without a release; the taker's Adopt replaces the
// giver's owner by one of its own, in one script. So no two processes ever
// change the count of one owner.

// notQuiet is the error of a Detach that has waited in vain for what is under way.
func notQuiet(s *ownerState) error {
	return &BackendError{Op: "detach", Name: s.kind.name, Err: errBusy}
}

// awaitQuiet waits until no attempt for the owner can have an effect any more. It reports
// false if ctx ends first. changeSem is held.
func awaitQuiet(ctx context.Context, s *ownerState) bool {
	if !s.outlastDeferred(ctx) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deferred = nil
	return true
}

// retirement is for how long nobody may lock as an owner whose hold was detached, after
// its key may have gone: another process's delayed request to replace it has no effect
// any more then, whatever that one's timeout is.
const retirement = 30 * time.Minute

// retiredOwners are those that nobody may lock as: their holds were detached, and
// another process is about to replace them; or they are nobody's. The zero value has none.
type retiredOwners struct {
	mu      sync.Mutex
	until   map[retired]mono.Time // guarded by mu
	sweepAt int                   // how many there may be before the old ones are dropped; guarded by mu
}

// retired is an owner at a lock, on either side.
type retired struct {
	lock  lockID
	owner Owner
}

// add notes that nobody may lock as the owner until then.
func (r *retiredOwners) add(k *kind, owner Owner, until mono.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.until) >= r.sweepAt { // not each time: there may be many
		now := mono.Now()
		maps.DeleteFunc(r.until, func(_ retired, end mono.Time) bool { return end < now })
		r.sweepAt = 2*len(r.until) + 16
	}
	if r.until == nil {
		r.until = map[retired]mono.Time{}
	}
	r.until[retired{k.id(), owner}] = until
}

// has reports whether nobody may lock as the owner now.
func (r *retiredOwners) has(k *kind, owner Owner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.until) > 0 && mono.Now() < r.until[retired{k.id(), owner}]
}

// adopt is Adopt of every kind.
func adopt(ctx context.Context, k *kind, owner Owner, config lockConfig) (*Hold, error) {
	if owner == (Owner{}) {
		return nil, fmt.Errorf("holdfast: %w owner: there is nothing to adopt of the zero Owner", ErrInvalid)
	}
	if _, err := ParseOwner(owner.text); err != nil {
		return nil, err
	}
	how := course{started: time.Now()}
	h, err := doAdopt(ctx, k, owner, config, how.started)
	if err != nil {
		tellRefused(ctx, k, config.hooks, how, err)
		return nil, err
	}
	h.tellAcquired(how)
	return h, nil
}

// doAdopt is adopt without what the hooks are told.
func doAdopt(ctx context.Context, k *kind, owner Owner, config lockConfig, started time.Time) (*Hold, error) {
	a, err := enter(&heldContext{ctx, &ownerOf{k, k.client.NewOwner()}, nil}, k, config, started)
	if err != nil {
		return nil, err
	}
	defer a.leave()
	a.op, a.caller = "adopt", ctx
	ch, _, _ := a.state.oneMoreCount() // nothing is held, or lost, of an owner that is new
	a.state.expect(a.lease)
	res := k.client.calls.Do(a.bound(), k.lock().Adopt(protocol.Acquire{
		Owner: a.state.owner.String(), From: ch.from, To: ch.to, Lease: a.lease, Token: a.wantsToken(),
	}, owner.String()))
	a.state.answered(a.lease, res.Err == nil && len(res.Unknown) == 0)
	a.unknown = res.Unknown
	pokeHolders(k) // one of them may be who held it
	switch {
	case res.Err != nil:
	case res.Reply.Code == script.Refused:
		res.Err = problem(k.name, "there is nothing to adopt of "+owner.shown(), ErrNotHeld)
	case res.Reply.Code == script.Upgrade:
		res.Err = problem(k.name, owner.shown()+" holds both sides, and is not replaced on one of them", ErrReentrant)
	}
	return a.conclude(res, ch)
}
