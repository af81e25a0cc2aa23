package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
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

	of   int // how many parts there are
	need int // how many of them have to live

	// changed receives when a part was acquired, or could not be.
	changed chan struct{}

	ownMu       sync.Mutex // Hold.mu points to it
	firstClient *Client    // of the first part: its tasks count the composite's goroutines
	members     []*member
	live        int     // how many of them live
	missed      []error // why the others could not be acquired, or ended
	handedOut   bool    // to the caller
	minHold     time.Duration
	keptUntil   time.Time     // until when others do not get the parts; zero until it is handed out
	lease       time.Duration // that all parts have been set to; 0 if they have not
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
	b := &composite{
		Hold: &Hold{name: name, kind: kind, owner: owners.one(), since: time.Now(), hooks: config.hooks},
		of:   of, need: need, changed: make(chan struct{}, 1), firstClient: client, minHold: config.minHold,
	}
	b.held, b.mu = b, &b.ownMu
	b.ctx, b.cancel = context.WithCancelCause(owners.heldIn(ctx, b.Hold))
	return b
}

func (b *composite) parts() []*Hold { return b.holds(false) }

func (*composite) permitIDs() []string { return nil }

// holds returns the parts, or those that live.
func (b *composite) holds(onlyLive bool) []*Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds := make([]*Hold, 0, len(b.members))
	for _, m := range b.members {
		if !m.dead || !onlyLive {
			holds = append(holds, m.Hold)
		}
	}
	return holds
}

// join makes a part of a hold. If the composite is no more, the part is given back.
func (b *composite) join(part *Hold) {
	m := &member{Hold: part}
	b.mu.Lock()
	over := b.state() != nil
	if !over {
		if b.firstClient == nil {
			b.firstClient = part.held.client()
		}
		b.members = append(b.members, m)
		b.live++
	}
	b.mu.Unlock()
	if over {
		// If Redis does not answer, the part's client goes on asking.
		_ = part.Unlock()
		return
	}
	part.whenEnded(func() { b.partEnded(m) })
	part.held.keepUntil(b.keptFrom())
	if lease := b.fixedLease(); lease > 0 {
		// It comes late, and ends with the others. If that cannot be said, it ends
		// with the lease that it was taken with.
		_ = part.held.fixLease(b.ctx, lease)
	}
	b.tell()
}

func (b *composite) client() *Client { return b.firstClient }

// partFailed takes note that a part could not be acquired. What fails when all is over
// has not failed by itself.
func (b *composite) partFailed(why error) {
	b.mu.Lock()
	if b.state() == nil {
		b.missed = append(b.missed, why)
		b.checkQuorum(why)
	}
	b.mu.Unlock()
	b.tell()
}

// partEnded takes note that a part was lost, or given back by another than the
// composite. The part's mutex is held.
func (b *composite) partEnded(m *member) {
	why := m.state()
	b.mu.Lock()
	m.dead = true
	b.live--
	b.missed = append(b.missed, why)
	b.checkQuorum(why)
	b.mu.Unlock()
	b.tell()
}

// fixedLease is the lease that all parts have been set to, or 0.
func (b *composite) fixedLease() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease
}

// tell has whoever acquires the parts look at how things stand.
func (b *composite) tell() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// checkQuorum ends the hold if too few parts live, or can still be acquired; why is what the last
// one died of. b.mu is held.
func (b *composite) checkQuorum(why error) {
	enough := b.live >= b.need
	if !b.handedOut {
		enough = len(b.missed) <= b.of-b.need
	}
	if enough || b.state() != nil {
		return
	}
	if errors.Is(why, ErrClosed) {
		b.lost = problem(b.name, "a part was given back then", ErrClosed)
		b.cancel(ErrClosed)
		return
	}
	b.lost = &LostError{Name: b.name, Reason: LostParts, Err: b.reason(why)}
	b.cancel(b.lost)
	if lost := b.lost; b.handedOut {
		tasks := &b.firstClient.tasks
		tasks.Go(func() { tasks.Uncounted(func() { b.tellLoss(lost) }) })
	}
}

// reason says why too few parts live. b.mu is held.
func (b *composite) reason(why error) error {
	if b.need < b.of {
		return fmt.Errorf("%d of %d parts live: %w", b.live, b.of, why)
	}
	return why
}

// handOut hands the hold out if enough parts live, and reports whether it did.
func (b *composite) handOut(started time.Time) bool {
	b.mu.Lock()
	b.handedOut = b.live >= b.need && b.state() == nil
	b.since = time.Now()
	handedOut := b.handedOut
	if handedOut && b.minHold > 0 {
		b.keptUntil = b.since.Add(b.minHold)
	}
	b.mu.Unlock()
	if handedOut {
		b.keepUntil(b.keptFrom())
		b.tellAcquired(time.Since(started))
	}
	return handedOut
}

// keptFrom is until when others do not get the parts; zero if they may at once.
func (b *composite) keptFrom() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keptUntil
}

func (b *composite) keepUntil(end time.Time) {
	b.mu.Lock()
	b.keptUntil = later(b.keptUntil, end) // for a part that joins from now on
	b.mu.Unlock()
	for _, part := range b.holds(false) {
		part.held.keepUntil(end)
	}
}

// deadline is until when enough parts live as things stand. Of a lost hold it is
// until when they would have.
func (b *composite) deadline() time.Time {
	b.mu.Lock()
	ended, lost := b.ended != nil, b.lost != nil
	b.mu.Unlock()
	if ended {
		return time.Time{}
	}
	parts := b.holds(!lost)
	deadlines := make([]time.Time, len(parts))
	for i, part := range parts {
		deadlines[i] = part.Deadline()
	}
	slices.SortFunc(deadlines, func(x, y time.Time) int { return y.Compare(x) })
	if len(deadlines) < b.need { // it is being lost at this moment
		return time.Now()
	}
	return deadlines[b.need-1]
}

func (b *composite) extend(ctx context.Context, d time.Duration) error {
	return b.eachPart(func(part *Hold) error { return part.Extend(ctx, d) })
}

// eachPart extends the parts side by side, and fails if it fails with too many.
func (b *composite) eachPart(extend func(part *Hold) error) error {
	if err := b.alive(); err != nil {
		return err
	}
	parts := b.holds(true)
	errs := sideBySide(parts, extend)
	lost := b.alive()
	if len(parts)-len(errs) >= b.need {
		return lost
	}
	return errors.Join(append([]error{lost}, errs...)...)
}

// unlock gives the parts back side by side, each whatever comes of the others.
func (b *composite) unlock() error {
	lost, err := b.end("this hold was unlocked before", nil)
	if err != nil {
		return err
	}
	parts := b.holds(false)
	errs := sideBySide(parts, (*Hold).Unlock)
	enough := len(parts)-len(errs) >= b.need
	if !enough {
		err = errors.Join(append([]error{lost}, errs...)...)
	}
	back := !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, ErrUntold) })
	switch {
	case errors.Is(err, ErrLost):
		b.tellLoss(err)
	case enough || back:
		b.tellReleased()
	}
	return err
}

// end ends the hold, and returns why it was lost before if it was; or why it has
// ended before.
func (b *composite) end(sentence string, cause error) (lost, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return nil, b.ended
	}
	b.ended = problem(b.name, sentence, ErrNotHeld)
	b.cancel(cause)
	return b.lost, nil
}

// abandon ends the acquiring because the wait is over.
func (b *composite) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.handedOut {
		b.cancel(errWaitOver)
	}
}

// rollback gives back what has been acquired, side by side. It waits for that
// until ctx ends; the rest goes on in the background, and so does what Redis has
// not answered to.
func (b *composite) rollback(ctx context.Context) {
	if _, err := b.end("too few of its parts could be acquired", ErrNotHeld); err != nil {
		return
	}
	parts := b.holds(false)
	if len(parts) == 0 {
		return
	}
	done := make(chan struct{})
	giveBack := func() {
		defer close(done)
		// What cannot be given back now, the parts' clients go on with.
		_ = sideBySide(parts, (*Hold).Unlock)
	}
	// Each Unlock counts by itself, but for its hooks.
	if tasks := &b.firstClient.tasks; !tasks.Go(func() { tasks.Uncounted(giveBack) }) {
		giveBack()
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (b *composite) fixLease(ctx context.Context, lease time.Duration) error {
	b.mu.Lock()
	b.lease = lease
	b.mu.Unlock()
	return b.eachPart(func(part *Hold) error { return part.held.fixLease(ctx, lease) })
}

func (b *composite) detach() (Owner, error) {
	return Owner{}, problem(b.name, "each of its parts has an owner", ErrInvalid)
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

// failure says why too few parts could be had: because others hold them, unless
// more have failed than can be done without.
func (b *composite) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var locked error
	var failed []error
	ran, lost := false, true
	for _, err := range b.missed {
		var backend *BackendError
		switch {
		case errors.Is(err, ErrReentrant):
			return err
		case errors.Is(err, ErrLocked):
			locked = cmp.Or(locked, err)
		default:
			failed = append(failed, err)
			ran = ran || errors.As(err, &backend) && backend.MayHaveRun
			lost = lost && errors.Is(err, ErrLost)
		}
	}
	switch silent := b.of - b.live - len(b.missed); {
	case locked != nil && len(failed) <= b.of-b.need:
		return locked
	case len(failed) > 0 && lost:
		return errors.Join(failed...)
	case silent > 0:
		ran = true
		failed = append(failed, fmt.Errorf("%d of them: %w", silent, call.ErrNoAnswer))
	}
	return &BackendError{
		Op: opAcquire, Name: b.name, MayHaveRun: ran,
		Err: fmt.Errorf("%d of %d servers have granted it, %d are needed: %w", b.live, b.of, b.need, errors.Join(failed...)),
	}
}
