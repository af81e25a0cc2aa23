package holdfast

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// This file is about the two sides of a read-write lock, which one owner may hold both. Each has
// a state of its own. In Redis they share a key, which lives as long as either lets it. A read hold nested in
// a write hold is granted only while that stands in Redis.

// onOtherSide returns the owner's state on the other side of a read-write lock, or nil if
// it has none there. It is paired with a call of unref.
func (s *ownerState) onOtherSide() *ownerState {
	if s.kind.otherSide == "" {
		return nil
	}
	c := s.kind.client
	c.mu.Lock()
	defer c.mu.Unlock()
	side := c.states.get(ownerStateKey{s.kind.name, s.kind.otherSide, s.owner})
	if side != nil {
		side.refs++
	}
	return side
}

// holdsOtherSide reports whether the owner holds the other side of a read-write lock.
func (s *ownerState) holdsOtherSide() bool {
	side := s.onOtherSide()
	if side == nil {
		return false
	}
	defer side.unref()
	return side.hasHolds()
}

// writesIn returns what the owner holds for writing, if the acquire is to read: it is granted only while that
// stands in Redis, too. maxHoldEnd is that of the write holds.
func (a *acquisition) writesIn() (writes *entry, maxHoldEnd mono.Time) {
	if !a.kind.shared || a.claim.fresh { // mostly: nobody else knows the owner
		return nil, 0
	}
	writing := a.state.onOtherSide()
	if writing == nil {
		return nil, 0
	}
	defer writing.unref()
	writing.mu.Lock()
	defer writing.mu.Unlock()
	if writing.entry == nil {
		return nil, 0
	}
	return writing.entry, writing.maxHoldEnd
}

// loseWrites ends the write holds that a read hold was to be nested in, since Redis does not know them, and
// returns why there is nothing to nest in.
func (a *acquisition) loseWrites() error {
	a.writes.Value.lose(a.writes, watchdog.NotHeld)
	return cmp.Or(a.claim.over(), error(&LostError{Name: a.kind.name, Reason: LostTaken}))
}

// awaitReaderRelease waits until what the owner has held for reading, and holds no
// more, is given back, and reports whether it reads all the same, by a hold that is
// handed out. If nothing is known of it here, it may have been given back since the
// answer was made. It returns ctx's cause if that ends first: then nobody knows yet
// whether the owner could have been let in.
func (a *acquisition) awaitReaderRelease(ctx context.Context) (reads bool, err error) {
	reading := a.state.onOtherSide()
	if reading == nil {
		return false, nil
	}
	defer reading.unref()
	if reading.hasHolds() {
		return true, nil
	}
	if err := reading.takeChangeSem(ctx); err != nil {
		return false, err
	}
	reading.reconcile(cleanup{release: true})
	// That frees it when it is done.
	if err := reading.takeChangeSem(ctx); err != nil {
		return false, err
	}
	reading.freeChangeSem()
	return false, nil
}

// longestEnd is when the key will have expired, whichever side of a read-write lock has made
// it live for so long.
func (s *ownerState) longestEnd() mono.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.keyEnd, s.otherEnd)
}

// noteOtherEnd takes note that the other side may have the key live until then.
func (s *ownerState) noteOtherEnd(end mono.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.otherEnd = max(s.otherEnd, end)
}

// standsBesideOtherSide reports whether what could not be given back does not end with its lease, since
// the other side of a read-write lock lets the key live.
func (s *ownerState) standsBesideOtherSide() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count > s.needed() && mono.Now() < s.otherEnd
}

// releaseAgain tries to give back what Redis has refused to take, a third of the client's lease later, or at once if the client closes. One
// such try is to come at a time, however many holds have been unlocked.
func (s *ownerState) releaseAgain() {
	c := s.kind.client
	s.mu.Lock()
	begun := s.releasesAgain
	s.releasesAgain = true
	s.mu.Unlock()
	if begun || c.closing.Err() != nil { // when it closes, it was tried since
		return
	}
	s.ref()
	if !c.tasks.Go(func() {
		defer s.unref()
		call.Sleep(c.closing, c.config.lease/3)
		s.mu.Lock()
		s.releasesAgain = false
		s.mu.Unlock()
		s.releaseLater()
	}) {
		s.unref()
	}
}

// errHoldsOtherSide is the error of a Detach of what the owner holds on both sides.
func errHoldsOtherSide(s *ownerState) error {
	return problem(s.kind.name, "its owner holds the other side, too", ErrReentrant)
}

// lockOtherSide sees to it that the owner does not hold the other side of a read-write
// lock, and will not until free is called.
func lockOtherSide(ctx context.Context, s *ownerState) (free func(), err error) {
	side := s.onOtherSide()
	if side == nil {
		return func() {}, nil
	}
	defer func() {
		if err != nil {
			side.unref()
		}
	}()
	if side.takeChangeSem(ctx) != nil {
		return nil, notQuiet(s)
	}
	quiet := awaitQuiet(ctx, side)
	switch {
	case !quiet:
		err = notQuiet(s)
	case side.counts() > 0:
		err = errHoldsOtherSide(s)
	default:
		return func() { side.freeChangeSem(); side.unref() }, nil
	}
	side.freeChangeSem()
	return nil, err
}
