package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// bundle is what a hold of several locks is made of: the holds of its parts, of
// which enough have to live. A multi-lock needs all of them, a RedLock a quorum.
//
// It has two phases. While it gathers, it fails once too many parts cannot be
// had or have been lost. When it is handed out it is lost once too few live.
// Parts that are had after that join it.
//
// Its mutex is taken after those of its parts, which tell it of their end.
type composite struct {
	name  string
	owner Owner
	of    int // how many parts there are
	need  int // how many of them have to live

	// news receives when a part was had, or could not be had.
	news chan struct{}

	mu     sync.Mutex
	client *Client // of the first part: its tasks count the composite's goroutines
	parts  []*member
	live   int           // how many of them live
	missed []error       // why the others could not be had, or died
	held   bool          // it is handed out
	lease  time.Duration // that all parts have been set to; 0 if they have not
	lost   error         // why the hold is lost; nil while it is not
}

// member is a part that was had.
type member struct {
	*Hold
	dead bool // guarded by composite.mu
}

// newComposite returns the hold of so many parts, need of which have to live. It has
// none yet. Parts are to be acquired under the hold's context, so that whatever ends
// it ends their acquiring, too.
func newComposite(ctx context.Context, name string, owners owners, of, need int, hooks hookList) *Hold {
	h := &Hold{
		composite: &composite{name: name, owner: owners.one(), of: of, need: need, news: make(chan struct{}, 1)},
		since:     time.Now(), hooks: hooks,
	}
	h.ctx, h.cancel = context.WithCancelCause(owners.heldIn(ctx, h))
	return h
}

// Parts returns the holds that a hold of several locks is made of, for example
// to read their fencing tokens; those of a [MultiLock] in the order of its name,
// those of a [RedLock] in the order in which they were had. It returns nil for a
// hold of one lock. Unlocking a part is losing it. Redisson has no counterpart.
func (h *Hold) Parts() []*Hold {
	if h.composite == nil {
		return nil
	}
	return h.composite.holds(false)
}

// holds returns the parts, or those that live.
func (b *composite) holds(onlyLive bool) []*Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds := make([]*Hold, 0, len(b.parts))
	for _, m := range b.parts {
		if !m.dead || !onlyLive {
			holds = append(holds, m.Hold)
		}
	}
	return holds
}

// join makes a part of a hold. If the composite is no more, the part is given back.
func (b *composite) join(h, part *Hold) {
	m := &member{Hold: part}
	b.mu.Lock()
	over := h.state() != nil
	if !over {
		if b.client == nil {
			b.client = part.client()
		}
		b.parts = append(b.parts, m)
		b.live++
	}
	b.mu.Unlock()
	if over {
		// If Redis does not answer, the part's client goes on asking.
		_ = part.Unlock()
		return
	}
	part.whenEnded(func() { b.died(h, m) })
	if lease := b.fixedLease(); lease > 0 {
		// It comes late, and ends with the others. If that cannot be said, it ends
		// with the lease that it was taken with.
		_ = part.fixLease(h.ctx, lease)
	}
	b.tell()
}

// client is one that has to do with the hold. Of a bundle it never changes, once
// it has a part.
func (h *Hold) client() *Client {
	if h.composite != nil {
		return h.composite.client
	}
	return h.owned.kind.client
}

// miss takes note that a part could not be had. What fails when all is over has
// not failed by itself.
func (b *composite) miss(h *Hold, why error) {
	b.mu.Lock()
	if h.state() == nil {
		b.missed = append(b.missed, why)
		b.checkQuorum(h, why)
	}
	b.mu.Unlock()
	b.tell()
}

// died takes note that a part was lost, or given back by another than the
// bundle. The part's mutex is held.
func (b *composite) died(h *Hold, m *member) {
	why := m.state()
	b.mu.Lock()
	m.dead = true
	b.live--
	b.missed = append(b.missed, why)
	b.checkQuorum(h, why)
	b.mu.Unlock()
	b.tell()
}

// fixedLease is the lease that all parts have been set to, or 0.
func (b *composite) fixedLease() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease
}

// tell has whoever gathers look at how things stand.
func (b *composite) tell() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// checkQuorum ends the hold if too few parts live, or can be had; why is what the last
// one died of. b.mu is held.
func (b *composite) checkQuorum(h *Hold, why error) {
	enough := b.live >= b.need
	if !b.held {
		enough = len(b.missed) <= b.of-b.need
	}
	if enough || h.state() != nil {
		return
	}
	if errors.Is(why, ErrClosed) {
		b.lost = problem(b.name, "a part was given back then", ErrClosed)
		h.cancel(ErrClosed)
		return
	}
	b.lost = &LostError{Name: b.name, Reason: b.reason(why)}
	h.cancel(b.lost)
	if lost := b.lost; b.held {
		b.client.tasks.Go(func() { b.client.tasks.Aside(func() { h.tellLoss(lost) }) })
	}
}

// reason says why too few parts live. b.mu is held.
func (b *composite) reason(why error) string {
	var lost *LostError
	text := "a part was given back by itself"
	if errors.As(why, &lost) {
		text = fmt.Sprintf("%q: %s", lost.Name, lost.Reason)
	}
	if b.need < b.of {
		text = fmt.Sprintf("%d of %d parts live; %s", b.live, b.of, text)
	}
	return text
}

// hand hands the hold out if enough parts live, and reports whether it did.
func (b *composite) hand(h *Hold, started time.Time) bool {
	b.mu.Lock()
	b.held = b.live >= b.need && h.state() == nil
	h.since = time.Now()
	held := b.held
	b.mu.Unlock()
	if held {
		h.tellAcquired(time.Since(started))
	}
	return held
}

// whenEnded has f called when the hold is lost or given back, at once if it has
// been. The hold's mutex is held then.
func (h *Hold) whenEnded(f func()) {
	mu := h.mutex()
	mu.Lock()
	defer mu.Unlock()
	if h.state() != nil {
		f()
		return
	}
	cancel := h.cancel
	h.cancel = func(cause error) {
		cancel(cause)
		f()
	}
}

// deadline is until when enough parts live as things stand. Of a lost hold it is
// until when they would have.
func (b *composite) deadline(h *Hold) time.Time {
	b.mu.Lock()
	ended, lost := h.ended != nil, b.lost != nil
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

// extend extends the parts side by side, and fails if it fails with too many.
func (b *composite) extend(h *Hold, one func(part *Hold) error) error {
	if err := h.alive(); err != nil {
		return err
	}
	parts := b.holds(true)
	errs := sideBySide(parts, one)
	lost := h.alive()
	if len(parts)-len(errs) >= b.need {
		return lost
	}
	return errors.Join(append([]error{lost}, errs...)...)
}

// unlock gives the parts back side by side, each whatever comes of the others.
func (b *composite) unlock(h *Hold) error {
	lost, err := b.end(h, "this hold was unlocked before", nil)
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
		h.tellLoss(err)
	case enough || back:
		h.hooks.released(Event{Name: b.name, Owner: b.owner, Held: time.Since(h.since)})
	}
	return err
}

// end ends the hold, and returns why it was lost before if it was; or why it has
// ended before.
func (b *composite) end(h *Hold, sentence string, cause error) (lost, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.ended != nil {
		return nil, h.ended
	}
	h.ended = problem(b.name, sentence, ErrNotHeld)
	h.cancel(cause)
	return b.lost, nil
}

// abandon ends what is gathered because the wait is over.
func (b *composite) abandon(h *Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held {
		h.cancel(errWaitOver)
	}
}

// rollback gives back what has been gathered, side by side. It waits for that
// until ctx ends; the rest goes on in the background, and so does what Redis has
// not answered to.
func (b *composite) rollback(ctx context.Context, h *Hold) {
	if _, err := b.end(h, "not all of its parts could be had", ErrNotHeld); err != nil {
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
	if !b.client.tasks.Go(func() { b.client.tasks.Aside(giveBack) }) {
		giveBack()
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// fixLease ends the renewal of a fixed lease that was kept until all parts were
// had, and makes the hold last for it from now on. It is no error that a part
// cannot last so long because of [WithMaxHold].
func (h *Hold) fixLease(ctx context.Context, lease time.Duration) error {
	if b := h.composite; b != nil {
		b.mu.Lock()
		b.lease = lease
		b.mu.Unlock()
		return b.extend(h, func(part *Hold) error { return part.fixLease(ctx, lease) })
	}
	t := h.owned
	t.mu.Lock()
	h.renewed = false
	if t.entry != nil { // its renewals were of another lease
		c := t.kind.client
		c.watchdog.SetLease(t.entry, c.config.lease)
		c.watchdog.SetRenewing(t.entry, t.wantsRenewal())
	}
	if !t.until.IsZero() {
		lease = min(lease, time.Until(t.until).Truncate(time.Millisecond))
	}
	entry, err := t.entry, h.state()
	t.mu.Unlock()
	if err != nil || lease < MinLease {
		return err
	}
	return h.extend(ctx, entry, lease)
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
