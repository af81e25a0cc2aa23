package call

import (
	"context"
	"sync"
	"time"
)

// bound is the context of an attempt. It ends with the caller's context, at the end of the
// attempt's time, or with Config.Life; that of [Caller.Send] has no caller. It has the
// caller's values, but not the caller's deadline: at the deadline of a call a client may
// give up the connection, which is right at the end of an attempt's time, and not sooner.
type bound struct {
	context.Context // derived from the caller's

	cancel        context.CancelCauseFunc
	due           time.Time
	endsAtClosing bool // it ends with Config.Closing, too
	// Guarded by bounds.mu.
	prev, next *bound
	listed     bool
}

// Deadline returns the end of the attempt's time.
func (b *bound) Deadline() (time.Time, bool) { return b.due, true }

// bounds are those of the attempts that are under way, in the order of their ends, so
// that one timer serves all. It is only moved to an earlier time when need be: mostly it
// fires once in a timeout, and finds that the attempts it was set for have long ended.
type bounds struct {
	mu          sync.Mutex
	first, last *bound
	timer       *time.Timer
	at          time.Time // when the timer fires; zero if it is not set
	closing     bool      // Config.Closing has ended
	closed      bool      // Config.Life has ended
}

// begin lets b end at due at the latest. It is paired with a call of finish.
func (s *bounds) begin(ctx context.Context, b *bound, due time.Time) {
	b.Context, b.cancel = context.WithCancelCause(ctx)
	b.due = due
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.closing && b.endsAtClosing {
		b.cancel(ErrClosed)
		return
	}
	s.insert(b)
}

// finish ends the watch on an attempt that is over, and returns why it was to be given
// up, or nil.
func (s *bounds) finish(b *bound) error {
	s.mu.Lock()
	s.remove(b)
	s.mu.Unlock()
	why := context.Cause(b.Context)
	b.cancel(nil)
	return why
}

// insert puts b in its place, which is mostly the last. mu is held.
func (s *bounds) insert(b *bound) {
	b.listed = true
	before := s.last
	for before != nil && b.due.Before(before.due) {
		before = before.prev
	}
	b.prev = before
	if before == nil {
		b.next, s.first = s.first, b
	} else {
		b.next, before.next = before.next, b
	}
	if b.next == nil {
		s.last = b
	} else {
		b.next.prev = b
	}
	if s.at.IsZero() || b.due.Before(s.at) {
		s.set(b.due)
	}
}

// remove takes b out, if it is in. mu is held.
func (s *bounds) remove(b *bound) {
	if !b.listed {
		return
	}
	b.listed = false
	if b.prev == nil {
		s.first = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next == nil {
		s.last = b.prev
	} else {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
}

// set has the timer fire then. mu is held.
func (s *bounds) set(at time.Time) {
	s.at = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(at), s.expire)
	} else {
		s.timer.Reset(time.Until(at))
	}
}

// expire is called by the timer.
func (s *bounds) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for now := time.Now(); s.first != nil && !s.first.due.After(now); {
		s.end(s.first, ErrNoAnswer)
	}
	s.at = time.Time{}
	if s.first != nil {
		s.set(s.first.due)
	}
}

// end gives an attempt up. mu is held.
func (s *bounds) end(b *bound, why error) {
	s.remove(b)
	b.cancel(why)
}

// endAtClosing ends the attempts that end with Config.Closing, and those that begin later.
func (s *bounds) endAtClosing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for b := s.first; b != nil; {
		next := b.next
		if b.endsAtClosing {
			s.end(b, ErrClosed)
		}
		b = next
	}
}

// endAll ends all attempts, and those that begin later.
func (s *bounds) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.first != nil {
		s.end(s.first, ErrClosed)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}
