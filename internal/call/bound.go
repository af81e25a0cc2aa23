package call

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/list"
	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// bound is the context of an attempt. It ends with the caller's context, at the end of the
// attempt's time, or with Config.Life; that of [Caller.DoApart] has no caller. It has the
// caller's values, but not the caller's deadline: at the deadline of a call a client may
// give up the connection, which is right at the end of an attempt's time, and not sooner.
// It costs nothing until somebody asks for Done.
type bound struct {
	caller        context.Context
	due           time.Time
	endsAtClosing bool              // it ends with Config.Closing, too
	place         list.Node[*bound] // guarded by bounds.mu

	mu      sync.Mutex
	why     error         // it has ended; nil: not yet
	err     error         // what Err returns then
	done    chan struct{} // nil: nobody has asked yet
	unwatch func() bool   // ends the watch on the caller's context; nil: there is none
}

// Deadline returns the end of the attempt's time.
func (b *bound) Deadline() (time.Time, bool) { return b.due, true }

// Value returns the caller's.
func (b *bound) Value(key any) any { return b.caller.Value(key) }

// Err returns nil as long as the attempt goes on.
func (b *bound) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endWithCaller()
	return b.err
}

// endWithCaller ends it if the caller's context has ended, so that Err and Done say the same. mu is held.
func (b *bound) endWithCaller() {
	if err := b.caller.Err(); err != nil {
		b.end(context.Cause(b.caller), err)
	}
}

// end ends it, unless it has ended before. mu is held.
func (b *bound) end(why, err error) {
	if b.why != nil {
		return
	}
	b.why, b.err = why, err
	if b.done != nil {
		close(b.done)
	}
	if b.unwatch != nil {
		b.unwatch()
	}
}

// Done is closed when the attempt is to be given up, or is over.
func (b *bound) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		return b.done
	}
	b.endWithCaller()
	b.done = make(chan struct{})
	if b.why != nil {
		close(b.done)
	} else if b.caller.Done() != nil {
		b.unwatch = context.AfterFunc(b.caller, func() { _ = b.Err() })
	}
	return b.done
}

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

// begin ends b when it is due, at the latest. It is paired with a call of finish.
func (s *bounds) begin(b *bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.closing && b.endsAtClosing {
		s.cut(b, lockerr.Closed)
		return
	}
	before := s.underWay.Last() // mostly its place is behind that
	for before != nil && b.due.Before(before.Value.due) {
		before = before.Prev()
	}
	b.place.Value = b
	s.underWay.InsertAfter(&b.place, before)
	if s.at.IsZero() || b.due.Before(s.at) {
		s.set(b.due)
	}
}

// errOver is why the context of an attempt ends that is over.
var errOver = errors.New("the attempt is over")

// finish ends the watch on an attempt that is over, and returns why it was to be given
// up, or nil.
func (s *bounds) finish(b *bound) error {
	s.mu.Lock()
	s.underWay.Remove(&b.place)
	s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(errOver, context.Canceled)
	switch {
	case b.why != errOver: //nolint:errorlint // nobody else has it
		return b.why
	case b.caller.Err() != nil:
		return context.Cause(b.caller)
	default:
		return nil
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

// turns is how often expire yields to all runnable goroutines before it gives up an attempt whose time is over: in a busy process
// a reply that arrived in time may wait for its reader to be scheduled. Twice, because Go sometimes prefers goroutines that have
// yielded.
const turns = 2

// expire is called by the timer.
func (s *bounds) expire() {
	now := time.Now()
	for range turns {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	for s.underWay.Len() > 0 {
		b := s.underWay.First().Value
		if b.due.After(now) {
			s.set(b.due)
			return
		}
		s.cut(b, ErrNoAnswer)
	}
}

// cut ends an attempt that is under way. mu is held.
func (s *bounds) cut(b *bound, why error) {
	s.underWay.Remove(&b.place)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(why, context.Canceled)
}

// close ends the attempts that end with Config.Closing, or all, and those that begin later.
func (s *bounds) close(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing, s.closed = true, s.closed || all
	for n := s.underWay.First(); n != nil; {
		b := n.Value
		n = n.Next()
		if all || b.endsAtClosing {
			s.cut(b, lockerr.Closed)
		}
	}
	if all && s.timer != nil {
		s.timer.Stop()
	}
}
