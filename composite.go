package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// It has two phases. While parts are acquired, it fails once too many cannot be had or
// have been lost. When it is handed out it is lost once too few live. Parts that are
// acquired after that join it.
//
// Its mutex is taken after those of its parts, which tell it of their end.
type composite struct {
	name, label string
	owner       Owner           // of all parts; zero if they have several
	hold        *Hold           // what the caller gets
	caller      context.Context // of the acquire
	ctx         context.Context // of the hold
	cancel      context.CancelCauseFunc
	of          int // how many parts there are
	need        int // how many of them have to live
	minHold     time.Duration

	// changed receives when a part was acquired, or could not be.
	changed chan struct{}

	mu            sync.Mutex    // guards what follows
	members       []*Hold       // the acquired parts, also those that have ended since
	live          int           // how many of them live
	missed        []error       // why the others could not be acquired, or ended
	handedOut     bool          // to the caller
	since         mono.Time     // when it was handed out
	retainedUntil mono.Time     // until when others do not get the parts; zero until it is handed out
	lease         time.Duration // that all parts have been set to; 0 if they have not
	ended         error         // why it has ended, other than by loss; nil while it lasts
	lost          error         // why it is lost
	atEnd         func(why error)
}

// newComposite returns a hold that has no part yet. Parts are to be acquired under its context, so that whatever ends
// it ends their acquiring, too.
func newComposite(a *compositeAcquire) *composite {
	c := &composite{
		name: a.name, label: a.label, owner: a.owner, hold: &Hold{hooks: a.config.hooks}, caller: a.caller,
		of: len(a.parts), need: a.need, minHold: a.config.MinHold, changed: make(chan struct{}, 1),
	}
	c.hold.core = c
	ctx := a.caller
	for i := range a.owners {
		ctx = engine.WithHolder(ctx, &a.handles[i].Lock, a.owners[i].text, c) //nolint:fatcontext // one layer a part
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// Owner is that of all parts; empty if they have several.
func (c *composite) Owner() string { return c.owner.text }

// Since is when it was handed out.
func (c *composite) Since() mono.Time { return c.since }

// Context ends with the hold.
func (c *composite) Context() context.Context { return c.ctx }

// Err returns why the hold has ended, or nil while it lasts.
func (c *composite) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err()
}

// err is Err with mu held.
func (c *composite) err() error { return cmp.Or(c.ended, c.lost) }

func (c *composite) parts() []*Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// join makes a part of a hold. If the composite is no more, the part is given back.
func (c *composite) join(part *Hold) {
	c.mu.Lock()
	late := c.ended != nil || c.handedOut && c.lost != nil
	if !late {
		c.members = append(c.members, part)
		c.live++
	}
	retainedUntil, lease := c.retainedUntil, c.lease
	c.mu.Unlock()
	if late {
		// If Redis does not answer, the part's client goes on asking.
		_ = part.Unlock()
		return
	}
	part.core.WhenEnded(c.partEnded)
	part.core.RetainUntil(retainedUntil)
	if lease > 0 {
		// The others have that lease already, and this part is to end with them. If Redis
		// does not answer, it ends with the lease that it was acquired with.
		_ = part.core.FixLease(c.ctx, lease)
	}
	c.tell()
}

// partFailed records that a part could not be acquired. It ignores a failure after the end of the hold, which is the cause, but
// not after the end of the wait or of the caller's context: then the failure is the outcome of the part.
func (c *composite) partFailed(why error) {
	c.mu.Lock()
	if c.err() == nil || c.ended == nil && (engine.OwnBound(context.Cause(c.ctx)) || engine.EndedByCaller(c.caller)) {
		c.missed = append(c.missed, why)
		c.checkQuorum(why)
	}
	c.mu.Unlock()
	c.tell()
}

// partEnded takes note that a part was lost, or given back by another than the
// composite. The part's mutex is held.
func (c *composite) partEnded(why error) {
	c.mu.Lock()
	c.live--
	c.missed = append(c.missed, why)
	c.checkQuorum(why)
	c.mu.Unlock()
	c.tell()
}

// tell has whoever acquires the parts look at how things stand.
func (c *composite) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// checkQuorum ends the hold if too few parts live, or can still be acquired; why is what the last
// one died of. c.mu is held.
func (c *composite) checkQuorum(why error) {
	enough := c.live >= c.need
	if !c.handedOut {
		enough = len(c.missed) <= c.of-c.need
	}
	if enough || c.err() != nil {
		return
	}
	if c.need < c.of {
		why = fmt.Errorf("%d of %d parts live: %w", c.live, c.of, why)
	}
	if errors.Is(why, ErrClosed) {
		c.lost = lockerr.Problem(c.name, "a part was given back then", ErrClosed)
		c.cancel(ErrClosed)
	} else {
		c.lost = &LostError{Name: c.name, Reason: LostParts, Err: why}
		c.cancel(c.lost)
	}
	c.atEndOnce(c.lost)
	if c.handedOut {
		(*observer)(c.hold).Ended(c.lost)
	}
}

// WhenEnded has f called once, when the hold is lost or given back; at once if it has been.
func (c *composite) WhenEnded(f func(why error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atEnd = f
	if why := c.err(); why != nil {
		c.atEndOnce(why)
	}
}

// atEndOnce tells whoever wanted to be told. mu is held.
func (c *composite) atEndOnce(why error) {
	if f := c.atEnd; f != nil {
		c.atEnd = nil
		f(why)
	}
}

// handOut hands the hold out if enough parts live and it was not abandoned, and reports whether it did.
func (c *composite) handOut(how report) bool {
	c.mu.Lock()
	c.handedOut = c.live >= c.need && c.err() == nil && !engine.OwnBound(context.Cause(c.ctx))
	c.since = mono.Now()
	handedOut := c.handedOut
	c.mu.Unlock()
	if !handedOut {
		return false
	}
	if c.minHold > 0 {
		c.RetainUntil(c.since.Add(c.minHold))
	}
	c.hold.tellAcquired(how)
	return true
}

// RetainUntil keeps the parts from others until then, whenever they are unlocked.
func (c *composite) RetainUntil(end mono.Time) {
	c.mu.Lock()
	c.retainedUntil = max(c.retainedUntil, end) // for a part that joins from now on
	c.mu.Unlock()
	for _, part := range c.parts() {
		part.core.RetainUntil(end)
	}
}

// Deadline is until when enough parts live as things stand. Of a lost hold it is
// until when they would have.
func (c *composite) Deadline() mono.Time {
	c.mu.Lock()
	ended, lost := c.ended != nil, c.lost != nil
	c.mu.Unlock()
	if ended {
		return 0
	}
	var deadlines []mono.Time
	for _, part := range c.parts() {
		if lost || part.core.Err() == nil {
			deadlines = append(deadlines, part.core.Deadline())
		}
	}
	if len(deadlines) < c.need { // it is being lost at this moment
		return mono.Now()
	}
	return reachedBy(deadlines, c.need)
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
	if len(parts)-len(errs) >= c.need {
		return lost
	}
	return joinOnce(append([]error{lost}, errs...)...)
}

// Unlock gives the parts back, each whatever comes of the others.
func (c *composite) Unlock() (engine.Unlocking, error) {
	lost, err := c.end("this hold was unlocked before", nil)
	if err != nil {
		return engine.EndedBefore, err
	}
	parts := c.parts()
	errs := unlockAll(parts)
	enough := len(parts)-len(errs) >= c.need
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

// end ends the hold, and returns why it was lost before if it was; or why it has
// ended before.
func (c *composite) end(sentence string, cause error) (lost, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return nil, c.ended
	}
	c.ended = lockerr.Problem(c.name, sentence, ErrNotHeld)
	c.cancel(cause)
	c.atEndOnce(c.ended)
	return c.lost, nil
}

// abandon ends the acquiring because the wait is over, and reports whether it was under way still.
func (c *composite) abandon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handedOut || c.err() != nil {
		return false
	}
	c.cancel(engine.ErrWaitOver)
	return true
}

// outcome returns how many parts live, and why others could not be acquired or have ended. Those left have not said yet.
func (c *composite) outcome() (live int, missed []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, slices.Clone(c.missed)
}

// awaitAll waits until each part was acquired or could not be, or ctx ends.
func (c *composite) awaitAll(ctx context.Context) {
	for ctx.Err() == nil {
		if live, missed := c.outcome(); live+len(missed) == c.of {
			return
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
		}
	}
}

// rollback gives back what has been acquired, side by side. It waits for that until ctx ends; the rest goes on in the
// background, and so does what Redis has not answered to.
func (c *composite) rollback(ctx context.Context) {
	if _, err := c.end("too few of its parts could be acquired", ErrNotHeld); err != nil {
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
	c.lease = lease
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
