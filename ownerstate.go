package holdfast

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// ownerState is what this process knows of one owner at one lock. It comes into
// being with the owner's first call and goes when nobody needs it; docs/architecture.md draws
// its states.
type ownerState struct {
	kind  *kind
	owner Owner

	// op is taken by whoever asks Redis for a change on behalf of this owner at
	// this lock, until it is known what came of it. So changes come one after
	// another, and an old one cannot undo a newer one.
	op chan struct{}

	refs int // guarded by Client.mu

	mu    sync.Mutex
	holds map[*single]struct{} // handed out, and neither unlocked nor forgotten yet
	// count is how often the owner holds the lock in Redis, and never less: as often
	// as there are holds, or more while one is being given back, or may have to be.
	count int
	// fewer is closed when count falls; nil if nobody waits for that.
	fewer chan struct{}
	// pending are unanswered attempts of granted acquires. While the hold lasts they
	// find another count and do nothing. After its release they could acquire or wait
	// again, so reconcile waits for them then. stood is the highest count that they
	// could set; leave removes the waiter.
	pending      []*call.Attempt
	stood        int
	leave        script.Request
	lost         error                // why the holds are lost; nil while they are not
	subscription *wakeup.Subscription // where a long hold listens for a forced unlock
	// entry is watched from the first hold to the last. Each run of holds has one
	// of its own: whoever brings news of an older one is recognised by it.
	entry    *watchdog.Entry
	deadline time.Time // of the last entry, when it was ended
	until    time.Time // no renewal reaches beyond this; zero: no bound
	keyEnd   time.Time // when the key will have expired whatever is under way
	knownEnd time.Time // the same, if nothing is under way
	expected int       // how many calls are under way that let the key live
	// keptUntil is until when [MinHold] keeps the lock from others, whoever unlocks it.
	keptUntil time.Time
	failing   error // how the last renewal failed; nil if it was acknowledged
	token     int64 // the fencing token of this run of holds; 0: none
}

type ownerStateKey struct {
	name, class string
	owner       Owner
}

// ownerState returns the owner's state at a lock, and makes it if need be. Each
// call is paired with one of unref.
func (c *Client) ownerState(k *kind, owner Owner) *ownerState {
	key := ownerStateKey{k.name, k.class, owner}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.states[key]
	if t == nil {
		t = &ownerState{kind: k, owner: owner, op: make(chan struct{}, 1), holds: map[*single]struct{}{}}
		c.states[key] = t
	}
	t.refs++
	return t
}

// onOtherSide returns the owner's state on the other side of a read-write lock, or nil if
// it has none there. It is paired with a call of unref.
func (t *ownerState) onOtherSide() *ownerState {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	side := c.states[ownerStateKey{t.kind.name, t.kind.otherSide, t.owner}]
	if side != nil {
		side.refs++
	}
	return side
}

func (t *ownerState) ref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t.refs++
}

func (t *ownerState) unref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(c.states, ownerStateKey{t.kind.name, t.kind.class, t.owner})
	}
}

// takeOp waits for the right to ask Redis for a change. It returns the
// context's cause if ctx ends first.
func (t *ownerState) takeOp(ctx context.Context) error {
	select {
	case t.op <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.op <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *ownerState) freeOp() { <-t.op }

// change is one to ask Redis for: the count of the owner before and after. A
// release finds from counts at most.
type change struct{ from, to int }

// oneMoreCount is the change that one hold more needs. Nothing is to be given back.
func (t *ownerState) oneMoreCount() (change, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 {
		t.lost, t.keptUntil = nil, time.Time{}
	}
	return change{from: len(t.holds), to: len(t.holds) + 1}, t.lost
}

// surplus is the change that gives back what is not handed out, if there is any.
func (t *ownerState) surplus() (change, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return change{from: t.count, to: len(t.holds)}, t.count > len(t.holds)
}

// counts is how often the owner holds the lock, as far as we know.
func (t *ownerState) counts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// handedOut reports whether the owner has any hold here that is not unlocked.
func (t *ownerState) handedOut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 0
}

// hasToken reports whether this run of holds has a fencing token.
func (t *ownerState) hasToken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 0 && t.token > 0
}

// confirmCount takes note of the count that stands in Redis now.
func (t *ownerState) confirmCount(count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setCount(count)
}

// setCount tells those who wait for it if the count has fallen. t.mu is held.
func (t *ownerState) setCount(count int) {
	if count < t.count && t.fewer != nil {
		close(t.fewer)
		t.fewer = nil
	}
	t.count = count
}

// mayHave takes note that so many counts may stand.
func (t *ownerState) mayHave(count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count = max(count, t.count)
}

// awaitSurplus waits until what is not handed out is given back by somebody else,
// or may be by the caller, who then has op. It returns the context's cause if ctx
// ends first.
func (t *ownerState) awaitSurplus(ctx context.Context) (has bool, err error) {
	for {
		t.mu.Lock()
		if t.count <= len(t.holds) {
			t.mu.Unlock()
			return false, nil
		}
		if t.fewer == nil {
			t.fewer = make(chan struct{})
		}
		fewer := t.fewer
		t.mu.Unlock()
		select {
		case t.op <- struct{}{}:
			return true, nil
		case <-fewer:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// deferCleanup keeps an acquire's unanswered attempts to be reconciled when a hold is
// given back.
func (t *ownerState) deferCleanup(m cleanup) {
	if len(m.unknown) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, m.unknown...)
	t.stood = max(t.stood, m.stood)
	if !m.leave.IsZero() {
		t.leave = m.leave
	}
}

// withDeferred adds to m what was deferred, and forgets it.
func (t *ownerState) withDeferred(m cleanup) cleanup {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.unknown, m.stood = slices.Concat(m.unknown, t.pending), max(m.stood, t.stood)
	if m.leave.IsZero() {
		m.leave = t.leave
	}
	t.pending, t.stood, t.leave = nil, 0, script.Request{}
	return m
}

// renewedLease is the longest lease of the holds that are to be renewed; 0 if none is.
// t.mu is held.
func (t *ownerState) renewedLease() (longest time.Duration) {
	for h := range t.holds {
		if !h.fixed {
			longest = max(longest, h.lease)
		}
	}
	return longest
}

// setRenewal has the watchdog renew what the holds need. t.mu is held.
func (t *ownerState) setRenewal() {
	lease, dog := t.renewedLease(), t.kind.client.watchdog
	if lease > 0 {
		dog.SetLease(t.entry, lease)
	}
	dog.SetRenewing(t.entry, lease > 0)
}

// whyLost returns why the holds are lost, or nil.
func (t *ownerState) whyLost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// gone is when the key will have expired even if nobody releases it.
func (t *ownerState) gone() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return later(t.keyEnd, time.Now().Add(t.kind.client.config.lease))
}

// vanished takes note that Redis has none of the owner's counts any more.
func (t *ownerState) vanished() {
	t.lose(nil, watchdog.NotHeld)
	t.confirmCount(0)
}

// expect takes note that a call under way lets the key live for ttl, and returns
// what to call with its result. Until then the key may live as long as if the call
// were still to arrive; once all are answered, it lives as long as they have said.
func (t *ownerState) expect(ttl time.Duration) (answered func(call.Result)) {
	late := ttl + t.kind.client.config.timeout
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected++
	t.keyEnd = later(t.keyEnd, time.Now().Add(late))
	return func(o call.Result) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o.Err != nil || len(o.Unknown) > 0 {
			ttl = late
		}
		t.knownEnd = later(t.knownEnd, time.Now().Add(ttl))
		if t.expected--; t.expected == 0 {
			t.keyEnd = t.knownEnd
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lost and longHeld are called by the watchdog.
func lost(e *watchdog.Entry, reason watchdog.Reason) {
	e.Value.(*ownerState).lose(e, reason) //nolint:forcetypeassert // the watchdog's values are owners' states
}

func longHeld(e *watchdog.Entry) {
	e.Value.(*ownerState).listen(e) //nolint:forcetypeassert // see lost
}

// lose ends every hold of the owner, once. entry says which run of holds the
// news is of; nil means the present one.
func (t *ownerState) lose(entry *watchdog.Entry, reason watchdog.Reason) {
	t.mu.Lock()
	if t.lost != nil || entry != nil && entry != t.entry {
		t.mu.Unlock()
		return
	}
	why := t.lostError(t.because(reason, t.renewedLease() > 0))
	forget := t.keyEnd
	if reason == watchdog.NotHeld {
		forget = time.Now()
	}
	t.lost = why
	t.endWatch()
	holds := make([]*single, 0, len(t.holds))
	for h := range t.holds {
		h.lost, h.lastDeadline = why, t.deadline
		h.cancel(why)
		holds = append(holds, h)
	}
	t.mu.Unlock()
	if len(holds) == 0 {
		return
	}
	c := t.kind.client
	c.tasks.Go(func() {
		for _, h := range holds {
			c.tasks.Uncounted(func() { h.tellLoss(why) })
		}
		call.Sleep(c.closing, time.Until(forget))
		if c.closing.Err() == nil { // else Close sees to it
			t.forget(why)
		}
	})
}

// because says why holds are lost, which were being renewed or not. t.mu is held.
func (t *ownerState) because(reason watchdog.Reason, renewing bool) LostReason {
	switch {
	case reason == watchdog.NotHeld:
		return LostTaken
	case !t.until.IsZero() && time.Until(t.until) < t.kind.client.config.margin+max(t.kind.client.config.lease, t.renewedLease())/50+10*time.Millisecond:
		return LostMaxHoldOver
	case !renewing:
		return LostLeaseOver
	}
	return LostUnanswered
}

// lostError says why holds are lost. What failed last is told if that is why. t.mu is
// held.
func (t *ownerState) lostError(reason LostReason) *LostError {
	lost := &LostError{Name: t.kind.name, Reason: reason}
	if reason == LostUnanswered && t.failing != nil {
		lost.Err = t.failing
	}
	return lost
}

// forget lets go of lost holds once their key is certainly gone: then nothing is
// left to be given back, and many users never unlock such a hold.
func (t *ownerState) forget(why error) {
	t.mu.Lock()
	if t.lost != why { //nolint:errorlint // the same loss, not one like it
		t.mu.Unlock()
		return
	}
	forgotten := len(t.holds)
	clear(t.holds)
	t.setCount(0)
	unknown := len(t.pending) > 0
	t.mu.Unlock()
	if unknown {
		t.kind.client.releaseLater(t)
	}
	for range forgotten {
		t.unref() // each hold had one
	}
}

// listen makes a long hold hear of a forced unlock.
func (t *ownerState) listen(entry *watchdog.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	channel := cmp.Or(t.kind.holderChannel, t.kind.waits.Channel(t.owner.String()))
	if t.entry == entry && t.subscription == nil && channel != "" {
		dog := t.kind.client.watchdog
		t.subscription = t.kind.client.hub.Join(channel, func() { dog.Check(entry) })
	}
}

// endWatch ends renewal and listening, and reports whether the holds could be
// trusted until now. t.mu is held.
func (t *ownerState) endWatch() bool {
	if t.subscription != nil {
		t.subscription.Leave()
		t.subscription = nil
	}
	if t.entry == nil {
		return false
	}
	dog := t.kind.client.watchdog
	trusted := dog.Remove(t.entry)
	t.deadline = dog.Deadline(t.entry)
	t.entry = nil
	return trusted
}
