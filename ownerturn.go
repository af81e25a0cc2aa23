package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// This file is about whose turn it is among the calls of one owner at one lock: who has ownerState.changeSem.

// takeChangeSem waits for the right to ask Redis for a change. It returns the
// context's cause if ctx ends first.
func (s *ownerState) takeChangeSem(ctx context.Context) error {
	if s.tryChangeSem() {
		return nil
	}
	select {
	case s.changeSem.Chan() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryChangeSem is takeChangeSem without waiting: it reports whether it was free.
func (s *ownerState) tryChangeSem() bool { return s.changeSem.TryTake() }

func (s *ownerState) freeChangeSem() { s.changeSem.Free() }

// errBusy is the failure of a call that has waited in vain for changeSem, or for what an earlier call has sent.
var errBusy = fmt.Errorf("an earlier call of its owner has no answer yet: %w", call.ErrNoAnswer)

// busyError is the error for an acquire that has waited for changeSem in vain: what the call that has it was refused with, if it
// still waits in a queue, or errBusy.
func (s *ownerState) busyError() error {
	s.mu.Lock()
	waiter := s.waiter
	s.mu.Unlock()
	if waiter != nil {
		if _, last := waiter.Retry(); last != nil {
			return last
		}
	}
	return &BackendError{Op: opAcquire, Name: s.kind.name, Err: errBusy}
}

// setWaiter notes the waiter of the acquire that has changeSem; nil when it waits no more. What it has heard is not kept: nobody
// knows for how long that is true.
func (s *ownerState) setWaiter(w *waitqueue.Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiter = w
}

// awaitSurplus waits until what is not handed out of a run is given back by somebody else,
// or may be by the caller, who then has changeSem. It returns the context's cause if ctx
// ends first.
func (s *ownerState) awaitSurplus(ctx context.Context, run *holdRun) (has bool, err error) {
	for {
		s.mu.Lock()
		if s.run != run || s.count <= s.needed() {
			s.mu.Unlock()
			return false, nil
		}
		if s.fewer == nil {
			s.fewer = make(chan struct{})
		}
		fewer := s.fewer
		s.mu.Unlock()
		select {
		case s.changeSem.Chan() <- struct{}{}:
			return true, nil
		case <-fewer:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
