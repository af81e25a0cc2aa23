package call

import (
	"context"
	"sync"
	"time"
)

// bound is the context of an attempt on its caller's goroutine. It ends with the
// caller's context, at the end of the attempt's time, or with the Caller. It has the
// caller's values, but not the caller's deadline: a client may give up a connection at the
// deadline of a call, which is well after an attempt's time, and not sooner.
type bound struct {
	context.Context // the caller's

	done chan struct{}
	stop func() bool // ends the watch on the caller's context; nil if that does not end
	due  time.Time

	// Guarded by bounds.mu.
	prev, next *bound
	listed     bool
	why        error // why it has ended; nil while it has not
	all        *bounds
}

// Deadline returns the end of the attempt's time.
func (b *bound) Deadline() (time.Time, bool) { return b.due, true }

// Done is closed when the attempt is to be given up.
func (b *bound) Done() <-chan struct{} { return b.done }

// Err returns [context.Canceled] once the attempt is to be given up, whatever the reason.
func (b *bound) Err() error {
	select {
	case <-b.done:
		return context.Canceled
	default:
		return nil
	}
}

// bounds are those of the attempts that are under way, in the order of their ends, so
// that one timer serves all. It is only moved to an earlier time when need be: mostly it
// fires once in a timeout, and finds that the attempts it was set for have long ended.
type bounds struct {
	mu          sync.Mutex
	first, last *bound
	timer       *time.Timer
	at          time.Time // when the timer fires; zero if it is not set
	closed      error     // why nothing is to be waited for any more; nil while it is
}

// begin returns the bound of an attempt that ends at due at the latest. It is paired
// with a call of finish.
func (s *bounds) begin(ctx context.Context, due time.Time) *bound {
	b := &bound{Context: ctx, done: make(chan struct{}), due: due, all: s}
	s.mu.Lock()
	if s.closed != nil {
		b.end(s.closed)
	} else {
		s.insert(b)
	}
	s.mu.Unlock()
	if ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, b.cancelled)
	}
	return b
}

// cancelled ends the attempt because the caller's context has ended.
func (b *bound) cancelled() {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.all.remove(b)
	b.end(context.Cause(b.Context))
}

// finish ends the watch on an attempt that is over, and returns why it was to be given
// up, or nil.
func (b *bound) finish() error {
	if b.stop != nil {
		b.stop()
	}
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.all.remove(b)
	return b.why
}

// end ends it, once. bounds.mu is held.
func (b *bound) end(why error) {
	if b.why == nil {
		b.why = why
		close(b.done)
	}
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
	now := time.Now()
	for s.first != nil && !s.first.due.After(now) {
		b := s.first
		s.remove(b)
		b.end(ErrNoAnswer)
	}
	s.at = time.Time{}
	if s.first != nil {
		s.set(s.first.due)
	}
}

// end ends all attempts, and those that begin later.
func (s *bounds) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = why
	for s.first != nil {
		b := s.first
		s.remove(b)
		b.end(why)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}
