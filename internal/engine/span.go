package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
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

// timeLeft is how long the call may still wait.
func (s *span) timeLeft() time.Duration {
	left := s.left()
	if deadline, ok := s.caller.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return left
}

// mustExist panics at a nil context, before it is used: a nil pointer would say nothing to the caller.
func mustExist(ctx context.Context) {
	if ctx == nil {
		panic("holdfast: the context is nil")
	}
}

// TooLate is the error of a call whose context has ended before anything was sent; nil if it has not.
func TooLate(ctx context.Context, op, name string, errs Errors) error {
	mustExist(ctx)
	switch {
	case ctx.Err() == nil:
		return nil
	case OwnBound(context.Cause(ctx)):
		return errs.Backend(op, name, false, call.ErrNoAnswer)
	default:
		return ContextError(ctx, name)
	}
}

// begin counts a call, or refuses it. It is paired with Tasks.End.
func (e *Engine) begin(ctx context.Context, op, name string) error {
	if err := TooLate(ctx, op, name, e.Errors); err != nil {
		return err
	}
	if e.Closing.Err() != nil || !e.Tasks.Begin() {
		return lockerr.Problem(name, "", lockerr.Closed)
	}
	return nil
}

// UntilClosing returns a context that also ends when the client closes.
func (e *Engine) UntilClosing(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.Closing, func() { cancel(lockerr.Closed) })
	return ctx, func() { stop(); cancel(nil) }
}

// errTimeIsUp is the cause of a context that WithTimeout has ended. A user has call.ErrNoAnswer in the place of it and of
// ErrWaitOver: a context that a user ends with that is still ended by the user.
var errTimeIsUp = fmt.Errorf("%w", call.ErrNoAnswer)

// ErrWaitOver is the cause of a context whose wait is over.
var ErrWaitOver = fmt.Errorf("%w: the wait is over", call.ErrNoAnswer)

// WithTimeout bounds ctx by d. [OwnBound] tells that end from the caller's.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTimeIsUp)
}

// OwnBound reports whether an error is the end of a bound of ours.
func OwnBound(err error) bool {
	return err == errTimeIsUp || err == ErrWaitOver //nolint:errorlint // itself: what wraps it is a caller's
}

// EndedByCaller reports whether ctx has ended, and not by a bound of ours.
func EndedByCaller(ctx context.Context) bool {
	return ctx.Err() != nil && !OwnBound(context.Cause(ctx))
}

// ContextError is the error of a call whose own context ended. It matches ctx.Err() and the context's cause.
func ContextError(ctx context.Context, name string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return lockerr.Problem(name, "the caller gave up", cause)
	}
	return lockerr.Problem(name, "the caller gave up", ctx.Err(), cause)
}

// noReply returns why Redis had not replied to the last request of a call when a bound ended the call, or nil if the request was
// too recent for that: see [call.Patience].
func (e *Engine) noReply(ctx context.Context, res *call.Result, first bool) error {
	return res.Unanswered(call.Patience(ctx, first, e.AckTimeout))
}

// ForUser returns what users are told in the place of the end of a bound of ours; other errors as they are.
func ForUser(err error) error {
	if OwnBound(err) {
		return call.ErrNoAnswer
	}
	return err
}

// moving reports whether a cluster has refused a call because it is moving its keys.
func moving(err error) bool { return call.Code(err) == "TRYAGAIN" }
