package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// This file bounds an acquire: by its Wait, by the end of its client, by WithMaxHold.

// bound returns the context that bounds the whole call. A free lock is had without it.
func (a *acquisition) bound() context.Context {
	if a.bounded != nil {
		return a.bounded
	}
	ctx, cancel := context.WithCancelCause(a.caller)
	stopClosing := context.AfterFunc(a.shutdown, func() { cancel(ErrClosed) })
	if a.shutdown.Err() != nil {
		cancel(ErrClosed) // at once: AfterFunc does it in a goroutine of its own
	}
	stopTimer := func() bool { return false }
	if limit := a.timeLimit(); limit > 0 {
		stopTimer = time.AfterFunc(time.Until(a.started.Add(limit)), func() { cancel(errWaitOver) }).Stop
	}
	a.bounded, a.stop = ctx, func() { stopClosing(); stopTimer(); cancel(nil) }
	return ctx
}

// timeLimit is how long the call may take; 0: no bound.
func (a *acquisition) timeLimit() time.Duration {
	if a.config.oneTry {
		return a.client.config.timeout + a.client.config.ackTimeout
	}
	return a.config.wait
}

// nests reports whether the owner holds the lock now, on either side of a read-write lock: then the call goes on through
// Shutdown, whatever becomes of that hold.
func (a *acquisition) nests() bool {
	switch {
	case a.claim.fresh: // mostly: nobody else knows the owner
		return false
	case a.state.live() > 0:
		return true
	}
	side := a.state.onOtherSide()
	if side == nil {
		return false
	}
	defer side.unref()
	return side.live() > 0
}

// wantedLease is the lease to ask for, if WithMaxHold does not end it earlier.
func (a *acquisition) wantedLease() time.Duration { return max(a.config.lease, a.config.retained()) }

// fitLease notes when WithMaxHold ends a run of holds that begins in write holds, and asks for the wanted lease, or what
// WithMaxHold leaves of the run if that is less.
func (a *acquisition) fitLease(ch change) error {
	a.lease = a.wantedLease()
	s := a.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch.from == 0 {
		s.maxHoldEnd = a.writesEnd
	}
	if s.maxHoldEnd.IsZero() {
		return nil
	}
	rest := mono.Until(s.maxHoldEnd).Truncate(time.Millisecond)
	switch {
	case rest >= a.lease:
		return nil
	case rest <= 0:
		return &LostError{Name: a.kind.name, Reason: LostMaxHoldOver}
	case a.config.fixed && !a.config.cuts, rest < a.config.retained():
		return a.client.beyondMaxHold(a.kind.name)
	case rest < MinLease:
		return &LostError{Name: a.kind.name, Reason: LostMaxHoldOver}
	}
	a.lease = rest
	return nil
}
