package engine

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// span is how long a call may take.
type span struct {
	started  time.Time
	limit    time.Duration   // counted from started; 0: none
	caller   context.Context // lives as long as the call
	stopping context.Context // ends it, too: draining, or closing if it nests in what goes on
	bounded  context.Context // see bound; nil: it was not needed
	stop     func()          // ends bounded
}

// bound returns the context that bounds the whole call. It is made when it is needed first: a free lock does not need it.
func (s *span) bound() context.Context {
	if s.bounded != nil {
		return s.bounded
	}
	ctx, cancel := context.WithCancelCause(s.caller)
	unregister := context.AfterFunc(s.stopping, func() { cancel(lockerr.Closed) })
	if s.stopping.Err() != nil {
		cancel(lockerr.Closed) // at once: AfterFunc does it in a goroutine of its own
	}
	stopTimer := func() bool { return false }
	if s.limit > 0 {
		stopTimer = time.AfterFunc(time.Until(s.started.Add(s.limit)), func() { cancel(ErrWaitOver) }).Stop
	}
	s.bounded, s.stop = ctx, func() { unregister(); stopTimer(); cancel(nil) }
	return ctx
}

// unbound ends what bound has begun.
func (s *span) unbound() {
	if s.stop != nil {
		s.stop()
	}
}

// left returns the time until the limit; the longest duration if there is none.
func (s *span) left() time.Duration {
	if s.limit <= 0 {
		return math.MaxInt64
	}
	return time.Until(s.started.Add(s.limit))
}
