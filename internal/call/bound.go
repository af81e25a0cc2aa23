package call

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/list"
)

// bound is the context of an attempt. It ends with the caller's context, at the end of the
// attempt's time, or with Config.Life; that of [Caller.Send] has no caller. It has the
// caller's values, but not the caller's deadline: at the deadline of a call a client may
// give up the connection, which is right at the end of an attempt's time, and not sooner.
type bound struct {
	context.Context // derived from the caller's

	cancel        context.CancelCauseFunc
	due           time.Time
	endsAtClosing bool              // it ends with Config.Closing, too
	place         list.Node[*bound] // guarded by bounds.mu
}

// Deadline returns the end of the attempt's time.
func (b *bound) Deadline() (time.Time, bool) { return b.due, true }

// bounds are those of the attempts that are under way, in the order of their ends, so
// that one timer serves all. It is only moved to an earlier time when need be: mostly it
// fires once in a timeout, and finds that the attempts it was set for have long ended.
type bounds struct {
	mu       sync.Mutex
	underWay list.List[*bound]
	timer    *time.Timer
	at       time.Time // when the timer fires; zero if it is not set
	closing  bool      // Config.Closing has ended
	closed   bool      // Config.Life has ended
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
	s.underWay.Remove(&b.place)
	s.mu.Unlock()
	why := context.Cause(b.Context)
	b.cancel(nil)
	return why
}

// insert puts b in its place, which is mostly the last. mu is held.
func (s *bounds) insert(b *bound) {
	before := s.underWay.Last()
	for before != nil && b.due.Before(before.Value.due) {
		before = before.Prev()
	}
	b.place.Value = b
	s.underWay.InsertAfter(&b.place, before)
	if s.at.IsZero() || b.due.Before(s.at) {
		s.set(b.due)
	}
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
	s.at = time.Time{}
	for now := time.Now(); s.underWay.Len() > 0; {
		b := s.underWay.First().Value
		if b.due.After(now) {
			s.set(b.due)
			return
		}
		s.end(b, ErrNoAnswer)
	}
}

// end gives an attempt up. mu is held.
func (s *bounds) end(b *bound, why error) {
	s.underWay.Remove(&b.place)
	b.cancel(why)
}

// endAtClosing ends the attempts that end with Config.Closing, and those that begin later.
func (s *bounds) endAtClosing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for n := s.underWay.First(); n != nil; {
		b := n.Value
		n = n.Next()
		if b.endsAtClosing {
			s.end(b, ErrClosed)
		}
	}
}

// endAll ends all attempts, and those that begin later.
func (s *bounds) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.underWay.Len() > 0 {
		s.end(s.underWay.First().Value, ErrClosed)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}
