//go:build unix

package runner

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// What is said of permits names none while one is free, and has an end only if a holder has one: the earliest.
func TestWaitingForPermit(t *testing.T) {
	t.Parallel()
	for want, ttls := range map[string][]time.Duration{
		"":                  {5 * time.Second}, // the other was given back just now
		": 2 of 2 are held": {holdfast.NoExpiry, holdfast.NoExpiry},
		": 2 of 2 are held, one for 5s more unless renewed": {holdfast.NoExpiry, 5 * time.Second},
	} {
		state := holdfast.State{Permits: 2}
		for _, ttl := range ttls {
			state.Holders = append(state.Holders, holdfast.Holder{TTL: ttl})
		}
		if got := waitingForPermit(state); got != want {
			t.Errorf("%v: %q, want %q", ttls, got, want)
		}
	}
}
