package redistest

import (
	"fmt"
	"testing"
	"time"
)

const (
	pollEvery = 20 * time.Millisecond
	pollLimit = 30 * time.Second
)

// poll calls check until it returns nil, and fails the test with its last
// error if that does not happen in good time. The error says what is missing.
func poll(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := pollFor(pollLimit, check); err != nil {
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
