package interop

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests, or is the Go side of one.
func TestMain(m *testing.M) {
	if os.Getenv(GoVariable) == "" {
		os.Exit(m.Run())
	}
	if err := obey(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "the Go peer:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
