package await

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// TestPause: a look follows soon after the lease, and never at once, however long anybody has made that.
func TestPause(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond + leastSleep, time.Hour: longestSleep, 0: longestSleep, holdfast.NoExpiry: longestSleep,
		math.MaxInt64 - 1: longestSleep, math.MaxInt64 - time.Millisecond: longestSleep,
	} {
		if got := pause(survey.Lock{Kind: survey.RW, TTL: ttl}); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
}
