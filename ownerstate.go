package holdfast

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/binarysem"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// ownerState is what this process knows of one owner at one lock. It comes into
// being with the owner's first call and goes when nobody needs it; docs/architecture.md draws
// its states.
type ownerState struct {
	ownerOf

	// changeSem is a semaphore of one. Whoever asks Redis for a change on behalf of this
	// owner at this lock takes it, and keeps it until it is known what came of that. So
	// changes come one after another, and an old one cannot undo a newer one.
	changeSem binarysem.Sem

	refs     int32 // guarded by Client.mu
	expected int16 // how many calls are under way that let the key live
	// undisclosed says that nobody outside the library knows the owner, and altered that more was
	// done with its hold than to acquire it: see mayPass.
	undisclosed, altered bool

	mu    sync.Mutex // guards what follows, and what precedes it up to refs
	holds []*single  // handed out, and neither unlocked nor forgotten yet
	one   [1]*single // where holds stand if there is one
	// count is how often the owner holds the lock in Redis, and never less: as often
	// as the holds need, or more while one is being given back, or may have to be.
	count int
	// confirmed is how many of them Redis had when it last answered, less those that a release sent since may have taken.
	confirmed int
	// fewer is closed when count falls; nil if nobody waits for that.
	fewer chan struct{}
	// deferred is what there is to clean up after granted acquires some of whose attempts
	// were not answered. While the hold lasts these find another count and do nothing.
	// After its release they could acquire or wait again, so reconcile waits for them then.
	// It is nil if there is nothing, as mostly.
	deferred     *cleanup
	lost         error                // why the holds are lost; nil while they are not
	run          *holdRun             // that of the holds, or of the next one
	firstRun     holdRun              // what run points to at first
	subscription *wakeup.Subscription // where a long hold listens for a forced unlock
	// entry is watched from the first hold to the last. Each run of holds has one
	// of its own: whoever brings news of an older one is recognised by it.
	entry    *entry
	first    entry     // what entry points to at first
	deadline mono.Time // of the last entry, when it was ended
	// maxHoldEnd is when WithMaxHold ends this run of holds: no renewal reaches beyond. Zero: no bound, or no hold yet.
	maxHoldEnd mono.Time
	ends       mono.Time // when the semaphore ends, and what is held with it; zero: never, as far as is known
	// endsKnownAt is when the answer came that says so.
	endsKnownAt mono.Time
	keyEnd      mono.Time // when the key will have expired whatever is under way
	knownEnd    mono.Time // the same, if nothing is under way
	// otherEnd is the same as keyEnd for what the owner's other side of a read-write lock has
	// asked for: both have one key.
	otherEnd mono.Time
	// releasesAgain says that releaseAgain is going to.
	releasesAgain bool
	// retainedUntil is until when [MinHold] keeps the lock from others, whoever unlocks it.
	retainedUntil mono.Time
	failing       error // how the last renewal failed; nil if it was acknowledged
	// waiter is that of the acquire that has changeSem; nil if none waits in a queue.
	waiter *waitqueue.Waiter
	token  int64   // the fencing token of this run of holds; 0: none
	cohort *cohort // in which the hold passes from one to the next, or has several; nil if it has not, so far
}

// entry is what the watchdog has of a run of holds.
type entry = watchdog.Entry[*ownerState]

// stateOf returns the owner's state at a lock, and makes it if need be. Each
// call is paired with one of unref.
func stateOf(k *kind, owner Owner) *ownerState {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states.get(ownerStateKey{k.name, k.class, owner})
	if s == nil {
		s = &ownerState{ownerOf: ownerOf{k, owner}}
		s.holds = s.one[:0]
		c.states.add(s)
	}
	s.refs++
	return s
}

func (s *ownerState) key() ownerStateKey { return ownerStateKey{s.kind.name, s.kind.class, s.owner} }

func (s *ownerState) ref() {
	c := s.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	s.refs++
}

func (s *ownerState) unref() {
	c := s.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.refs--; s.refs == 0 {
		c.states.remove(s)
	}
}

// claimed notes as whom a call of this owner is made. It reports false if the owner is
// another call's own, which the caller may have read in Redis.
func (s *ownerState) claimed(by claim) bool {
	if by.hold != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undisclosed = s.undisclosed || by.fresh && (s.kind.handsOver || s.kind.sharesHolds)
	return !s.undisclosed || by.fresh
}

// change is one to ask Redis for: the count of the owner before and after. A
// release finds from counts at most, and unless they were lost at least those that are confirmed.
type change struct{ from, to, confirmed int }

// oneMoreCount is the change that one hold more needs. It reports false if something has
// to be given back first. changeSem is held, but holds may be unlocked at any time.
func (s *ownerState) oneMoreCount() (ch change, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := s.needed()
	if s.count > needed {
		return change{}, false, nil
	}
	if len(s.holds) == 0 {
		s.lost, s.retainedUntil, s.maxHoldEnd = nil, 0, 0
		if s.run == nil {
			s.run = &s.firstRun
		} else {
			s.run = new(holdRun)
		}
	}
	return change{from: needed, to: needed + 1}, true, s.lost
}

// holdRun is what the holds of an owner, from one that is not nested to the last, have in common for those that have
// been unlocked and not yet been given back.
type holdRun struct {
	taken error // why it was lost, if Redis had the lock no more
}

// surplus is the change that gives back what is not handed out, if there is any.
func (s *ownerState) surplus() (change, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := s.needed()
	return change{from: s.count, to: needed, confirmed: s.confirmed}, s.count > needed
}

// needed is how many counts the holds need: one each, but those that share one. s.mu is held.
func (s *ownerState) needed() int {
	shared := s.sharers()
	return len(s.holds) - shared + min(shared, 1)
}

// sharers is how many holds share one count. s.mu is held.
func (s *ownerState) sharers() (n int) {
	for _, h := range s.holds {
		if h.shares {
			n++
		}
	}
	return n
}

// counts is how often the owner holds the lock, as far as we know.
func (s *ownerState) counts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// hasHolds reports whether the owner has any hold here that is not unlocked, lost ones included.
func (s *ownerState) hasHolds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holds) > 0
}

// live is how many holds are neither unlocked nor lost: all are lost, or none.
func (s *ownerState) live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return 0
	}
	return len(s.holds)
}

// drop takes a hold off, and reports whether it was there. s.mu is held.
func (s *ownerState) drop(h *single) bool {
	i := slices.Index(s.holds, h)
	if i >= 0 {
		s.holds = slices.Delete(s.holds, i, i+1)
	}
	return i >= 0
}

// hasToken reports whether this run of holds has a fencing token.
func (s *ownerState) hasToken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holds) > 0 && s.token > 0
}

// confirmCount takes note of the count that stands in Redis now.
func (s *ownerState) confirmCount(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setCount(count)
}

// setCount tells those who wait for it if the count has fallen. s.mu is held.
func (s *ownerState) setCount(count int) {
	if count < s.count && s.fewer != nil {
		close(s.fewer)
		s.fewer = nil
	}
	s.count, s.confirmed = count, count
}

// mayHave takes note that so many counts may stand.
func (s *ownerState) mayHave(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count = max(count, s.count)
}

// deferCleanup keeps an acquire's unanswered attempts to be reconciled when a hold is
// given back.
func (s *ownerState) deferCleanup(todo cleanup) {
	if len(todo.unknown) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := todo
	if s.deferred != nil {
		all = s.deferred.and(todo)
	}
	s.deferred = &all
}

// outlastDeferred waits until the attempts that deferCleanup has kept can have no effect any
// more. It reports false if ctx ends first. changeSem is held.
func (s *ownerState) outlastDeferred(ctx context.Context) bool {
	s.mu.Lock()
	deferred := s.deferred
	s.mu.Unlock()
	if deferred != nil {
		s.kind.client.calls.Outlast(ctx, deferred.unknown)
	}
	return ctx.Err() == nil
}

// withDeferred returns todo with what deferCleanup has kept, and forgets that.
func (s *ownerState) withDeferred(todo cleanup) cleanup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deferred != nil {
		todo = s.deferred.and(todo)
	}
	s.deferred = nil
	return todo
}

// renewedLease is the longest lease of the holds that are to be renewed; 0 if none is.
// s.mu is held.
func (s *ownerState) renewedLease() (longest time.Duration) {
	for _, h := range s.holds {
		if !h.fixed {
			longest = max(longest, h.lease)
		}
	}
	return longest
}

// setRenewal has the watchdog renew what the holds need. s.mu is held.
func (s *ownerState) setRenewal() {
	lease, watch := s.renewedLease(), s.kind.client.watchdog
	if lease > 0 {
		watch.SetLease(s.entry, lease)
	}
	watch.SetRenewing(s.entry, lease > 0)
}

// setEnd takes note of when the semaphore ends, and what is held with it; zero: never. s.mu is
// held.
func (s *ownerState) setEnd(end mono.Time) {
	s.ends = end
	until := s.maxHoldEnd
	if !end.IsZero() && (until.IsZero() || end < until) {
		until = end
	}
	s.kind.client.watchdog.SetUntil(s.entry, until)
}

// whyLost returns why the holds are lost, or nil.
func (s *ownerState) whyLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// keyGoneBy is when the key will have expired even if nobody releases it, at least a lease from now: a release is
// repeated until then.
func (s *ownerState) keyGoneBy() mono.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.keyEnd, s.otherEnd, mono.Now().Add(s.kind.client.config.lease))
}

// vanished takes note that Redis has none of the owner's counts any more.
func (s *ownerState) vanished() {
	s.lose(nil, watchdog.NotHeld)
	s.confirmCount(0)
}

// expect takes note that a call under way lets the key live for ttl. It is paired with a
// call of answered. Until then the key may live as long as if the call were still to
// arrive; once all are answered, it lives as long as they have said.
func (s *ownerState) expect(ttl time.Duration) {
	s.mu.Lock()
	s.expected++
	s.keyEnd = max(s.keyEnd, mono.Now().Add(ttl+s.kind.client.config.timeout))
	s.mu.Unlock()
	if side := s.onOtherSide(); side != nil {
		side.noteOtherEnd(s.longestEnd())
		s.noteOtherEnd(side.longestEnd())
		side.unref()
	}
}

// answered takes note that such a call is over, and whether it is known what came of it.
func (s *ownerState) answered(ttl time.Duration, known bool) {
	if !known {
		ttl += s.kind.client.config.timeout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knownEnd = max(s.knownEnd, mono.Now().Add(ttl))
	if s.expected--; s.expected == 0 {
		s.keyEnd = s.knownEnd
	}
}
