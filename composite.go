package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// composite is a hold of several locks: the holds of its parts, of which enough have to
// live. A multi-lock needs all of them, a RedLock a quorum.
//
// Its quorum counts the parts, its terms are what they were set to, and its lifetime is how far it has come. While parts are
// acquired, it fails once too many cannot be acquired or have been lost. When it is handed out, it is lost once too few live.
// Parts that are acquired after that join it.
//
// Its mutex is taken after those of its parts, which tell it of their end.
type composite struct {
	lock   *MultiLock      // that it is a hold of
	owner  Owner           // of all parts; zero if they have several
	hold   *Hold           // what the caller gets
	caller context.Context // of the acquire
	ctx    context.Context // of the hold
	cancel context.CancelCauseFunc

	// changed receives when a part was acquired, could not be, or has ended.
	changed chan struct{}

	mu     sync.Mutex // guards what follows
	quorum quorum
	terms  terms
	life   lifetime
}

// newComposite returns a hold that has no part yet. Parts are to be acquired under its context, so that whatever ends
// it ends their acquiring, too.
func newComposite(a *compositeAcquire) *composite {
	c := &composite{
		lock: a.MultiLock, owner: ownerOfAll(a.owners), hold: &Hold{hooks: a.config.hooks}, caller: a.caller,
		changed: make(chan struct{}, 1), quorum: quorum{of: len(a.parts), need: a.need},
	}
	c.hold.core = c
	ctx := a.caller
	for i := range a.owners {
		ctx = engine.WithHolder(ctx, &a.handles[i].Lock, a.owners[i].text, c) //nolint:fatcontext // one layer a part
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// ownerOfAll is the owner of all parts; zero if they have several.
func ownerOfAll(owners []Owner) Owner {
	if one := slices.Compact(slices.Clone(owners)); len(one) == 1 {
		return one[0]
	}
	return Owner{}
}

// Owner is that of all parts; empty if they have several.
func (c *composite) Owner() string { return c.owner.text }

// Since is when it was handed out.
func (c *composite) Since() mono.Time { return c.life.since }

// Context ends with the hold.
func (c *composite) Context() context.Context { return c.ctx }

// Err returns why the hold has ended, or nil while it lasts.
func (c *composite) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.why
}

func (c *composite) parts() []*Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.quorum.members)
}

// join makes a part of a hold. If the composite is no more, the part is given back.
func (c *composite) join(part *Hold) {
	c.mu.Lock()
	late := c.life.phase == phaseLost || c.life.phase == phaseOver // what has failed gives it back with the others
	if !late {
		c.quorum.join(part)
	}
	terms := c.terms
	c.mu.Unlock()
	if late {
		// If Redis does not answer, the part's client goes on asking.
		_ = part.Unlock()
		return
	}
	part.core.WhenEnded(c.partEnded)
	part.core.RetainUntil(terms.retainedUntil)
	if terms.lease > 0 {
		// The others have that lease already, and this part is to end with them. If Redis
		// does not answer, it ends with the lease that it was acquired with.
		_ = part.core.FixLease(c.ctx, terms.lease)
	}
	c.tell()
}

// partFailed records that a part could not be acquired. It ignores a failure after the end of the hold, which is the cause, but
// not after the end of the wait or of the caller's context: then the failure is the outcome of the part.
func (c *composite) partFailed(why error) {
	c.mu.Lock()
	if c.life.why == nil || c.life.phase != phaseOver && (c.abandoned() || engine.EndedByCaller(c.caller)) {
		c.quorum.failed(why)
		c.checkQuorum(why)
	}
	c.mu.Unlock()
	c.tell()
}

// partEnded takes note that a part was lost, or given back by another than the
// composite. The part's mutex is held.
func (c *composite) partEnded(why error) {
	c.mu.Lock()
	c.quorum.ended(why)
	c.checkQuorum(why)
	c.mu.Unlock()
	c.tell()
}

// tell makes the acquire look at the parts again.
func (c *composite) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// checkQuorum ends the hold if too few parts live, or can still be acquired; why is what the last
// one died of. c.mu is held.
func (c *composite) checkQuorum(why error) {
	switch {
	case c.life.phase == phaseGathering && c.quorum.outOfReach():
		c.lose(phaseFailed, why)
	case c.life.phase == phaseHeld && !c.quorum.reached():
		c.lose(phaseLost, why)
		(*observer)(c.hold).Ended(c.life.why)
	}
}

// lose ends the hold because of its parts; why is what the last one died of. c.mu is held.
func (c *composite) lose(to phase, why error) {
	why = c.quorum.loss(why)
	if errors.Is(why, ErrClosed) {
		c.end(to, lockerr.Problem(c.lock.name, "a part was given back then", ErrClosed), ErrClosed)
		return
	}
	lost := &LostError{Name: c.lock.name, Reason: LostParts, Err: why}
	c.end(to, lost, lost)
}

// end ends the hold; cause is what its context says. c.mu is held.
func (c *composite) end(to phase, why, cause error) {
	c.cancel(cause)
	c.life.end(to, why)
}

// WhenEnded has f called once, when the hold is lost or given back; at once if it has been.
func (c *composite) WhenEnded(f func(why error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life.whenEnded(f)
}

// begin begins the hold if enough parts live and it was not abandoned, and reports whether it did.
func (c *composite) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.phase != phaseGathering || !c.quorum.reached() || c.abandoned() {
		return false
	}
	c.life.begin()
	return true
}

// RetainUntil keeps the parts from others until then, whenever they are unlocked.
func (c *composite) RetainUntil(end mono.Time) {
	c.mu.Lock()
	c.terms.retainedUntil = max(c.terms.retainedUntil, end) // for a part that joins from now on
	c.mu.Unlock()
	for _, part := range c.parts() {
		part.core.RetainUntil(end)
	}
}

// Deadline is until when enough parts live as things stand. Of a lost hold it is
// until when they would have.
func (c *composite) Deadline() mono.Time {
	c.mu.Lock()
	phase := c.life.phase
	c.mu.Unlock()
	if phase == phaseOver {
		return 0
	}
	lost := phase == phaseFailed || phase == phaseLost
	var deadlines []mono.Time
	for _, part := range c.parts() {
		if lost || part.core.Err() == nil {
			deadlines = append(deadlines, part.core.Deadline())
		}
	}
	if len(deadlines) < c.quorum.need { // it is being lost at this moment
		return mono.Now()
	}
	return reachedBy(deadlines, c.quorum.need)
}

// Extend makes enough parts live for at least d from now.
func (c *composite) Extend(ctx context.Context, d time.Duration) error {
	return c.eachPart(func(part *Hold) error { return part.Extend(ctx, d) })
}

// eachPart extends the parts side by side, and fails if it fails with too many.
func (c *composite) eachPart(extend func(part *Hold) error) error {
	if err := c.Err(); err != nil {
		return err
	}
	parts := slices.DeleteFunc(c.parts(), func(part *Hold) bool { return part.core.Err() != nil })
	errs := sideBySide(len(parts), func(i int) error { return extend(parts[i]) })
	lost := c.Err()
	if len(parts)-len(errs) >= c.quorum.need {
		return lost
	}
	return joinOnce(append([]error{lost}, errs...)...)
}

// Unlock gives the parts back, each whatever comes of the others.
func (c *composite) Unlock() (engine.Unlocking, error) {
	lost, err := c.finish("this hold was unlocked before", nil)
	if err != nil {
		return engine.EndedBefore, err
	}
	parts := c.parts()
	errs := unlockAll(parts)
	enough := len(parts)-len(errs) >= c.quorum.need
	if !enough {
		err = joinOnce(append([]error{lost}, errs...)...)
	}
	stands := func(err error) bool { return !errors.Is(err, ErrUntold) }
	switch {
	case lost != nil:
		return engine.EndedBefore, err
	case enough || !slices.ContainsFunc(errs, stands):
		return engine.Released, err
	}
	return engine.NotReleased, err
}

// finish ends the hold for good, and returns why it was lost before if it was; or why it has
// ended before.
func (c *composite) finish(sentence string, cause error) (lost, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.phase == phaseOver {
		return nil, c.life.why
	}
	lost = c.life.why
	c.end(phaseOver, lockerr.Problem(c.lock.name, sentence, ErrNotHeld), cause)
	return lost, nil
}

// abandon ends the acquiring because the wait is over, and reports whether it was under way still.
func (c *composite) abandon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.phase != phaseGathering {
		return false
	}
	c.cancel(engine.ErrWaitOver)
	return true
}

// abandoned reports whether a bound of ours has ended the acquiring: abandon, or that of locks that these are a part of.
func (c *composite) abandoned() bool { return engine.OwnBound(context.Cause(c.ctx)) }

// outcome returns how many parts live, and why others could not be acquired or have ended. Those left have not said yet.
func (c *composite) outcome() (live int, missed []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quorum.live, slices.Clone(c.quorum.missed)
}

// complete reports whether each part was acquired, or could not be.
func (c *composite) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quorum.complete()
}

// awaitAll waits until each part was acquired or could not be, or ctx ends.
func (c *composite) awaitAll(ctx context.Context) {
	for ctx.Err() == nil && !c.complete() {
		select {
		case <-c.changed:
		case <-ctx.Done():
		}
	}
}

// rollback gives back what has been acquired, side by side. It waits for that until ctx ends; the rest goes on in the
// background, and so does what Redis has not answered to.
func (c *composite) rollback(ctx context.Context) {
	if _, err := c.finish("too few of its parts could be acquired", ErrNotHeld); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		unlockAll(c.parts()) // what cannot be given back now, the parts' clients go on with
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// FixLease ends the renewal of the parts, and makes enough of them live for a lease from now.
func (c *composite) FixLease(ctx context.Context, lease time.Duration) error {
	c.mu.Lock()
	c.terms.lease = lease
	c.mu.Unlock()
	return c.eachPart(func(part *Hold) error { return part.core.FixLease(ctx, lease) })
}

// unlockAll gives parts back side by side.
func unlockAll(parts []*Hold) []error {
	return sideBySide(len(parts), func(i int) error { return parts[i].Unlock() })
}

// sideBySide does n things at the same time, and returns the errors.
func sideBySide(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n - 1 {
		group.Go(func() { errs[i] = do(i) })
	}
	if n > 0 {
		errs[n-1] = do(n - 1)
	}
	group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
