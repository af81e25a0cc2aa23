package engine

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
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
			w := (&asker{lock: lockOf(e, &Traits{Line: true}, "x"), engine: e}).newWait(protocol.Acquire{})
			w.m = waiting.Begun(w.policy(0), false, "id", 0)
			refused := call.Result{Reply: script.Reply{Code: script.Refused, Rest: []any{"an owner", int64(1000), hint, int64(0), int64(0)}}}
			if do := w.m.On(0, w.wasRefused(refused), waiting.Lore{}); !do.Remember || time.Duration(w.m.Until()) != want {
				t.Errorf("after a hint of %d ms it sleeps for %v, want %v", hint, time.Duration(w.m.Until()), want)
			}
		}
	})
}
