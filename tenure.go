package holdfast

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// tenure is what this process knows of one owner at one lock. It comes into
// being with the owner's first call and goes when nobody needs it; doc.go draws
// its states.
type tenure struct {
	kind  *kind
	owner Owner

	// op is taken by whoever asks Redis for a change on behalf of this owner at
	// this lock, until it is known what came of it. So changes come one after
	// another, and an old one cannot undo a newer one.
	op chan struct{}

	refs int // guarded by Client.mu

	mu    sync.Mutex
	holds map[*Hold]struct{} // handed out, and not unlocked yet
	// ours is how many counts in Redis are ours, as far as we know: as many as
	// there are holds, or more while one is being given back.
	ours int
	// unsure says that there may be fewer: a release was not answered, an acquire
	// was given up, or the holds were lost.
	unsure bool
	// base is how many more stand there: another process's, which has the owner
	// too.
	base int
	// pending are sends of granted acquires that were not answered. While the
	// hold lasts they find another count and do nothing; once it has been given
	// back they might take it again, or wait for it again, so that must be settled
	// then. stood is how many counts would be ours, leave takes the waiter away.
	pending []*flight
	stood   int
	leave   request
	// stale are sends of partial releases that were not answered. They do nothing
	// until the count is again what it was before: the next acquire waits.
	stale []*flight
	lost  error        // why the holds are lost; nil while they are not
	seat  *wakeup.Seat // where a long hold listens for a forced unlock
	// entry is watched from the first hold to the last. Each run of holds has one
	// of its own: whoever brings news of an older one is recognised by it.
	entry    *watchdog.Entry
	deadline time.Time // of the last entry, when it was ended
	until    time.Time // no renewal reaches beyond this; zero: no bound
	keyEnd   time.Time // when the key will have expired whatever is under way
	token    int64     // the fencing token of this run of holds; 0: none
}

type tenureKey struct {
	name, class string
	owner       Owner
}

// tenure returns the owner's tenure at a lock, and makes it if need be. Each
// call is paired with one of unref.
func (c *Client) tenure(k *kind, owner Owner) *tenure {
	key := tenureKey{k.name, k.class, owner}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenures[key]
	if t == nil {
		t = &tenure{kind: k, owner: owner, op: make(chan struct{}, 1), holds: map[*Hold]struct{}{}}
		c.tenures[key] = t
	}
	t.refs++
	return t
}

// standing returns a tenure that is there already, or nil. It is paired with a
// call of unref.
func (c *Client) standing(key tenureKey) *tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenures[key]
	if t != nil {
		t.refs++
	}
	return t
}

func (t *tenure) ref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t.refs++
}

func (t *tenure) unref() {
	c := t.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.refs--; t.refs == 0 {
		delete(c.tenures, tenureKey{t.kind.name, t.kind.class, t.owner})
	}
}

// takeOp waits for the right to ask Redis for a change. It returns the
// context's cause if ctx ends first.
func (t *tenure) takeOp(ctx context.Context) error {
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

func (t *tenure) freeOp() { <-t.op }

// change is one to ask Redis for: the count of the owner before and after, and
// how much of it is another process's.
type change struct{ from, to, base int }

// ours is how many counts are ours after the change.
func (ch change) ours() int { return ch.to - ch.base }

// oneMore is the change that one hold more needs. If a hold that was unlocked
// has not been given back yet, its count is kept for the new one.
func (t *tenure) oneMore() (change, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 && t.lost != nil {
		t.lost, t.unsure = nil, true // what is being given back may be gone
	}
	return change{from: t.base + t.ours, to: t.base + len(t.holds) + 1, base: t.base}, t.lost
}

// surplus is the change that gives back what is not handed out, if there is any.
func (t *tenure) surplus() (change, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return change{from: t.base + t.ours, to: t.base + len(t.holds), base: t.base}, t.ours > len(t.holds)
}

// learn takes note that Redis has another count than we thought. What is beyond
// ours is another process's. It reports false if less is there than ours, and
// has then lost the holds.
func (t *tenure) learn(count int) bool {
	t.mu.Lock()
	if mine := count - t.base; t.unsure && mine >= len(t.holds) && mine < t.ours {
		t.ours = mine
		t.mu.Unlock()
		return true
	}
	if count >= t.ours {
		t.base = count - t.ours
		t.mu.Unlock()
		return true
	}
	t.mu.Unlock()
	t.vanished()
	return false
}

// count is how many counts of the owner stand in Redis, as far as we know.
func (t *tenure) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.base + t.ours
}

// handedOut reports whether the owner has any hold here that is not unlocked.
func (t *tenure) handedOut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 0
}

// hasToken reports whether this run of holds has a fencing token.
func (t *tenure) hasToken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 0 && t.token > 0
}

// settled takes note of the counts that are ours now.
func (t *tenure) settled(ours int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.unsure = ours, false
}

// doubt takes note that a release was not answered.
func (t *tenure) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsure = true
}

// mayHave takes note that so many counts may be ours, and no fewer.
func (t *tenure) mayHave(ours int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ours > t.ours {
		t.ours, t.unsure = ours, true
	}
}

// postpone keeps an acquire's unanswered sends to be settled when a hold is
// given back.
func (t *tenure) postpone(m matter) {
	if len(m.unknown) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, m.unknown...)
	t.stood = max(t.stood, m.stood)
	if m.leave.script != nil {
		t.leave = m.leave
	}
}

// postponed adds to m what was postponed, and forgets it.
func (t *tenure) postponed(m matter) matter {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.unknown, m.stood = slices.Concat(m.unknown, t.pending, t.stale), max(m.stood, t.stood)
	if m.leave.script == nil {
		m.leave = t.leave
	}
	t.pending, t.stale, t.stood, t.leave = nil, nil, 0, request{}
	return m
}

// leaveStale keeps unanswered sends of a release for the next acquire to wait
// for. It reports false if they have to be settled now: if the release was the
// last one, or an acquire is still to be settled.
func (t *tenure) leaveStale(unknown []*flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 || len(t.pending) > 0 {
		return false
	}
	t.stale = append(t.stale, unknown...)
	return true
}

// awaitStale waits until nothing that is stale can have an effect any more.
func (t *tenure) awaitStale(ctx context.Context) {
	t.mu.Lock()
	stale := t.stale
	t.stale = nil
	t.mu.Unlock()
	t.kind.client.outlast(ctx, stale)
	if ctx.Err() != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stale = append(t.stale, stale...)
	}
}

// whyLost returns why the holds are lost, or nil.
func (t *tenure) whyLost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// gone is when the key will have expired even if nobody releases it.
func (t *tenure) gone() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := time.Now().Add(t.kind.client.config.lease)
	if t.keyEnd.After(end) {
		end = t.keyEnd
	}
	return end
}

// vanished takes note that Redis has none of our counts any more.
func (t *tenure) vanished() {
	t.lose(nil, watchdog.NotHeld.String())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.base, t.unsure = 0, 0, false
}

// lives takes note that the key may live for ttl from now on.
func (t *tenure) lives(ttl time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end := time.Now().Add(ttl); end.After(t.keyEnd) {
		t.keyEnd = end
	}
}

// lost and mature are called by the watchdog.
func lost(e *watchdog.Entry, reason watchdog.Reason) {
	e.Ward.(*tenure).lose(e, reason.String()) //nolint:forcetypeassert // the watchdog's wards are tenures
}

func mature(e *watchdog.Entry) {
	e.Ward.(*tenure).listen(e) //nolint:forcetypeassert // see lost
}

// lose ends every hold of the tenure, once. entry says which run of holds the
// news is of; nil means the present one.
func (t *tenure) lose(entry *watchdog.Entry, reason string) {
	t.mu.Lock()
	if t.lost != nil || entry != nil && entry != t.entry {
		t.mu.Unlock()
		return
	}
	t.lost = &LostError{Name: t.kind.name, Reason: reason}
	why := t.lost
	t.endWatch()
	holds := make([]*Hold, 0, len(t.holds))
	for h := range t.holds {
		h.cancel(ErrLost)
		holds = append(holds, h)
	}
	t.mu.Unlock()
	if len(holds) > 0 {
		t.kind.client.tasks.Go(func() {
			for _, h := range holds {
				t.kind.client.tasks.Aside(func() { h.tellLoss(why) })
			}
		})
	}
}

// listen makes a long hold hear of a forced unlock.
func (t *tenure) listen(entry *watchdog.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	channel := t.kind.channel(t.owner)
	if t.entry == entry && t.seat == nil && channel != "" && !t.kind.deaf {
		dog := t.kind.client.dog
		t.seat = t.kind.client.hub.Join(channel, func() { dog.Poke(entry) })
	}
}

// endWatch ends renewal and listening, and reports whether the holds could be
// trusted until now. t.mu is held.
func (t *tenure) endWatch() bool {
	if t.seat != nil {
		t.seat.Leave()
		t.seat = nil
	}
	if t.entry == nil {
		return false
	}
	dog := t.kind.client.dog
	trusted := dog.Remove(t.entry)
	t.deadline = dog.Deadline(t.entry)
	t.entry = nil
	return trusted
}
