package redistest

import (
	"fmt"
	"testing"
	"time"
)

const (
	pollEvery = 20 * time.Millisecond
	pollLimit = 30 * time.Second
	// recoveryLimit is for all nodes to be well after a failover: sentinels take a good 20 s to make the old primary a
	// replica and to look again how it is.
	recoveryLimit = 2 * time.Minute
)

// poll calls check until it returns nil, and fails the test with its last
// error if that does not happen in good time. The error says what is missing.
func poll(t testing.TB, what string, check func() error) {
	t.Helper()
	pollWithin(t, pollLimit, what, check)
}

// pollWithin is poll with a limit of its own.
func pollWithin(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := pollFor(limit, check); err != nil {
		t.Fatalf("redistest: waiting until %s: %v", what, err)
	}
}

func pollFor(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not after %v: %w", limit, err)
		}
		time.Sleep(pollEvery)
	}
}
