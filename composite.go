package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
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
	*Hold

	what ownership
	of   int // how many parts there are
	need int // how many of them have to live

	// changed receives when a part was acquired, or could not be.
	changed chan struct{}

	mu            sync.Mutex // guards what follows, and how the hold has ended
	firstClient   *Client    // of the first part: its goroutines tell hooks when a part could not be had
	members       []*member
	live          int     // how many of them live
	missed        []error // why the others could not be acquired, or ended
	handedOut     bool    // to the caller
	minHold       time.Duration
	retainedUntil mono.Time     // until when others do not get the parts; zero until it is handed out
	lease         time.Duration // that all parts have been set to; 0 if they have not
}

// member is an acquired part.
type member struct {
	*Hold

	dead bool // guarded by the composite's mu
}

// newComposite returns the hold of so many parts, need of which have to live. It has
// none yet. Parts are to be acquired under the hold's context, so that whatever ends
// it ends their acquiring, too. Client is that of the first part, if it is known.
func newComposite(ctx context.Context, name, kind string, client *Client, owners owners, of, need int, config lockConfig) *composite {
	c := &composite{
		Hold: &Hold{since: mono.Now(), hooks: config.hooks},
		what: ownership{name, kind, owners.one()},
		of:   of, need: need, changed: make(chan struct{}, 1), firstClient: client, minHold: config.minHold,
	}
	c.held = c
	c.ctx, c.cancel = context.WithCancelCause(owners.contextOf(ctx, c.Hold))
	return c
}

func (c *composite) ownership() ownership { return c.what }

func (c *composite) discloseOwner() Owner { return c.what.owner }

func (c *composite) mutex() *sync.Mutex { return &c.mu }

func (c *composite) parts() []*Hold { return c.holds(false) }

func (c *composite) goUncounted(f func()) bool {
	return slices.ContainsFunc(c.holds(false), func(part *Hold) bool { return part.held.goUncounted(f) })
}

func (*composite) permitIDs() []string { return nil }

// holds returns the parts, or those that live.
func (c *composite) holds(onlyLive bool) []*Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	holds := make([]*Hold, 0, len(c.members))
	for _, m := range c.members {
		if !m.dead || !onlyLive {
			holds = append(holds, m.Hold)
		}
	}
	return holds
}

// join makes a part of a hold. If the composite is no more, the part is given back.
func (c *composite) join(part *Hold) {
	m := &member{Hold: part}
	c.mu.Lock()
	ended := c.state() != nil
	if !ended {
		if c.firstClient == nil {
			c.firstClient = part.held.client()
		}
		c.members = append(c.members, m)
		c.live++
	}
	c.mu.Unlock()
	if ended {
		c.partFailed(&BackendError{Op: opAcquire, Name: part.Name(), MayHaveRun: true, Err: call.ErrNoAnswer}) // it came too late
		// If Redis does not answer, the part's client goes on asking.
		_ = part.Unlock()
		return
	}
	part.whenEnded(func() { c.partEnded(m) })
	part.held.retainUntil(c.retention())
	if lease := c.fixedLease(); lease > 0 {
		// The others have that lease already, and this part is to end with them. If Redis
		// does not answer, it ends with the lease that it was acquired with.
		_ = part.held.fixLease(c.ctx, lease)
	}
	c.tell()
}

func (c *composite) client() *Client { return c.firstClient }

// partFailed takes note that a part could not be acquired. What fails after the hold has ended has failed of that, and is
// not noted; but after the end of the wait it is, since it says what has come of the part.
func (c *composite) partFailed(why error) {
	c.mu.Lock()
	if c.state() == nil || c.ended == nil && timeIsUp(c.ctx) {
		c.missed = append(c.missed, why)
		c.checkQuorum(why, c.firstClient)
	}
	c.mu.Unlock()
	c.tell()
}

// partEnded takes note that a part was lost, or given back by another than the
// composite. The part's mutex is held.
func (c *composite) partEnded(m *member) {
	why := m.state()
	c.mu.Lock()
	m.dead = true
	c.live--
	c.missed = append(c.missed, why)
	c.checkQuorum(why, m.held.client())
	c.mu.Unlock()
	c.tell()
}

// fixedLease is the lease that all parts have been set to, or 0.
func (c *composite) fixedLease() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease
}

// tell has whoever acquires the parts look at how things stand.
func (c *composite) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// checkQuorum ends the hold if too few parts live, or can still be acquired; why is what the last
// one died of, and client that part's, which is not closed yet. c.mu is held.
func (c *composite) checkQuorum(why error, client *Client) {
	enough := c.live >= c.need
	if !c.handedOut {
		enough = len(c.missed) <= c.of-c.need
	}
	if enough || c.state() != nil {
		return
	}
	if errors.Is(why, ErrClosed) {
		c.lost = problem(c.what.name, "a part was given back then", ErrClosed)
		c.cancel(ErrClosed)
	} else {
		c.lost = &LostError{Name: c.what.name, Reason: LostParts, Err: c.reason(why)}
		c.cancel(c.lost)
	}
	if lost := c.lost; c.handedOut && len(c.hooks) > 0 {
		client.tasks.GoUncounted(func() { c.tellOver(lost, false) })
	}
}

// reason says why too few parts live. c.mu is held.
func (c *composite) reason(why error) error {
	if c.need < c.of {
		return fmt.Errorf("%d of %d parts live: %w", c.live, c.of, why)
	}
	return why
}

// handOut hands the hold out if enough parts live, and reports whether it did.
func (c *composite) handOut(how course) bool {
	c.mu.Lock()
	c.handedOut = c.live >= c.need && c.state() == nil
	c.since = mono.Now()
	handedOut := c.handedOut
	if handedOut && c.minHold > 0 {
		c.retainedUntil = c.since.Add(c.minHold)
	}
	c.mu.Unlock()
	if handedOut {
		c.retainUntil(c.retention())
		c.tellAcquired(how)
	}
	return handedOut
}

// retention is until when others do not get the parts; zero if they may at once.
func (c *composite) retention() mono.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retainedUntil
}

func (c *composite) retainUntil(end mono.Time) {
	c.mu.Lock()
	c.retainedUntil = max(c.retainedUntil, end) // for a part that joins from now on
	c.mu.Unlock()
	for _, part := range c.holds(false) {
		part.held.retainUntil(end)
	}
}

// deadline is until when enough parts live as things stand. Of a lost hold it is
// until when they would have.
func (c *composite) deadline() mono.Time {
	c.mu.Lock()
	ended, lost := c.ended != nil, c.lost != nil
	c.mu.Unlock()
	if ended {
		return 0
	}
	parts := c.holds(!lost)
	deadlines := make([]mono.Time, len(parts))
	for i, part := range parts {
		deadlines[i] = part.held.deadline()
	}
	if len(deadlines) < c.need { // it is being lost at this moment
		return mono.Now()
	}
	return reachedBy(deadlines, c.need)
}

func (c *composite) extend(ctx context.Context, d time.Duration) error {
	return c.eachPart(func(part *Hold) error { return part.Extend(ctx, d) })
}

// eachPart extends the parts side by side, and fails if it fails with too many.
func (c *composite) eachPart(extend func(part *Hold) error) error {
	if err := c.alive(); err != nil {
		return err
	}
	parts := c.holds(true)
	errs := sideBySide(parts, extend)
	lost := c.alive()
	if len(parts)-len(errs) >= c.need {
		return lost
	}
	return errors.Join(append([]error{lost}, errs...)...)
}

// unlock gives the parts back side by side, each whatever comes of the others.
func (c *composite) unlock() error {
	lost, err := c.end(unlocked, nil)
	if err != nil {
		return err
	}
	parts := c.holds(false)
	errs := sideBySide(parts, (*Hold).Unlock)
	enough := len(parts)-len(errs) >= c.need
	if !enough {
		err = errors.Join(append([]error{lost}, errs...)...)
	}
	c.tellOver(err, enough || allBack(errs))
	return err
}

// end ends the hold, and returns why it was lost before if it was; or why it has
// ended before.
func (c *composite) end(how *ending, cause error) (lost, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.hasEnded(); err != nil {
		return nil, err
	}
	c.ended = how
	c.cancel(cause)
	return c.lost, nil
}

// abandon ends the acquiring because the wait is over, and reports whether it was under way still.
func (c *composite) abandon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handedOut || c.state() != nil {
		return false
	}
	c.cancel(errWaitOver)
	return true
}

// allBack reports whether all parts are given back, by the errors of their Unlock.
func allBack(errs []error) bool {
	return !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, ErrUntold) })
}

// rollback gives back what has been acquired, side by side, and reports whether all of it
// is back. It waits for that until ctx ends; the rest goes on in the background, and so
// does what Redis has not answered to.
func (c *composite) rollback(ctx context.Context) (back bool) {
	if _, err := c.end(rolledBack, ErrNotHeld); err != nil {
		return true
	}
	parts := c.holds(false)
	if len(parts) == 0 {
		return true
	}
	done := make(chan struct{})
	var errs []error
	giveBack := func() {
		defer close(done)
		// What cannot be given back now, the parts' clients go on with.
		errs = sideBySide(parts, (*Hold).Unlock)
	}
	// Each Unlock counts by itself, but for its hooks.
	if !c.goUncounted(giveBack) { // all are closed: no Unlock waits
		giveBack()
	}
	select {
	case <-done:
		return allBack(errs)
	case <-ctx.Done():
		return false
	}
}

func (c *composite) fixLease(ctx context.Context, lease time.Duration) error {
	c.mu.Lock()
	c.lease = lease
	c.mu.Unlock()
	return c.eachPart(func(part *Hold) error { return part.held.fixLease(ctx, lease) })
}

func (c *composite) detach() (Owner, error) {
	return Owner{}, problem(c.what.name, "each of its parts has an owner", ErrInvalid)
}

// sideBySide does something with every part at the same time, and returns the
// errors.
func sideBySide(parts []*Hold, do func(*Hold) error) []error {
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts[:max(1, len(parts))-1] {
		group.Go(func() { errs[i] = do(part) })
	}
	if last := len(parts) - 1; last >= 0 {
		errs[last] = do(parts[last])
	}
	group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
