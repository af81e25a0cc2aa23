package engine

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waiting"
)

// TestNoReplyMakesAWaiterSleepUntilItsEntryIsStale: the server says when a listed waiter sends its next request, but a waiter whose
// entry is stale is no longer on the waitlist.
func TestNoReplyMakesAWaiterSleepUntilItsEntryIsStale(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		for hint, want := range map[int64]time.Duration{
			1000:          time.Second + time.Millisecond,
			119_999:       protocol.PlaceLives,
			3_600_000:     protocol.PlaceLives,
			math.MaxInt64: protocol.PlaceLives,
		} {
			w := &wait{blockingCall: &blockingCall{lock: lockOf(e, Traits{Kind: protocol.MutexKind}, "x"), engine: e}}
			w.m = waiting.Begun(policyOf(w.blockingCall, 0), false, "id", 0)
			if do := w.m.On(0, w.wasRefused(refused(hint)), waiting.Lore{}); !do.Remember || time.Duration(w.m.Until()) != want {
				t.Errorf("after a hint of %d ms it sleeps for %v, want %v", hint, time.Duration(w.m.Until()), want)
			}
		}
	})
}

// refused returns the refusal of a waiter that gets an entry, and is to send its next request in so many milliseconds.
func refused(hint int64) *call.Result {
	return &call.Result{Reply: script.Reply{Code: script.Refused, Rest: []any{"an owner", int64(1000), hint, int64(0), int64(0)}}}
}

// panicking is a WaitObserver that panics.
type panicking struct{}

func (panicking) Waits(context.Context, int, error) { panic("told") }

// TestNothingIsLeftOfAWaitThatPanics: a WaitObserver may panic after the first request. The client expects no messages for it then, and
// the waiter has left its queue.
func TestNothingIsLeftOfAWaitThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		l := lockOf(e, Traits{Kind: protocol.MutexKind}, "x")
		b := newBlockingCall(t.Context(), l, OpAcquire, &Args{OnWait: panicking{}})
		a := &b
		a.stopping = e.Draining
		if _, first := e.queues.Join(&a.waiter, l.queueFor(""), nil, mono.Now()); !first {
			t.Fatal("the queue is not empty")
		}
		w := waitAfter(a, &protocol.Acquire{Lease: time.Second, Number: "id"}, mono.Now(), refused(1000))
		func() {
			defer func() {
				if told := recover(); told != "told" {
					t.Errorf("panicked with %v", told)
				}
			}()
			w.run()
		}()
		if n := len(e.mail.requests); n > 0 || !e.queues.Idle() || !w.leaveDue {
			t.Errorf("%d requests are expected; the queue is idle: %v; a leave is due: %v", n, e.queues.Idle(), w.leaveDue)
		}
		for name, c := range e.mail.channels {
			if len(c.waiting) > 0 {
				t.Errorf("%d waiters of %s", len(c.waiting), name)
			}
		}
	})
}

// TestAWaiterBehindOthersHasNoAccount: most waiters of a busy lock are behind others of their process, or are handed the lock.
func TestAWaiterBehindOthersHasNoAccount(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		l := lockOf(e, plain, "x")
		var ahead waiter
		e.queues.Join(&ahead, l.queueFor(""), nil, mono.Now())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { unlock(t, acquire(t.Context(), t, l)) })
		}
		synctest.Wait()
		if n := len(e.accounts.fresh); n > 0 {
			t.Errorf("there are %d accounts of waiters that have sent no request", n)
		}
		ahead.LeaveAfter(0, false, nil)
		all.Wait()
		nothingIsLeft(t, e)
	})
}
