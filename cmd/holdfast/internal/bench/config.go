package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// Kind is the kind of lock.
type Kind string

// The kinds.
const (
	Mutex Kind = "mutex"
	Fair  Kind = "fair"
	Read  Kind = "read"
	Write Kind = "write"
)

// Kinds are all of them, for the command line.
func Kinds() []string { return []string{string(Mutex), string(Fair), string(Read), string(Write)} }

// exclusive reports whether one at a time holds a lock of the kind.
func (k Kind) exclusive() bool { return k != Read }

const (
	// most is how many goroutines there may be: each has a stack, and waits for itself.
	most = 100_000
	// longest is how long a run may take.
	longest = 24 * time.Hour
)

// Config says what to run.
type Config struct {
	Target     *connect.Target
	Kind       Kind
	Goroutines int
	Locks      int // among which the goroutines are divided
	Duration   time.Duration
	Hold       time.Duration // how long a lock is held in each pair
	Lease      time.Duration // that the watchdog renews
	Prefix     string        // of the locks' names
	// Progress is told now and then how far it is, by one goroutine; it may be nil.
	Progress func(elapsed time.Duration, pairs int64)
}

func (c *Config) check() error {
	switch {
	case c.Goroutines < 1 || c.Goroutines > most:
		return fmt.Errorf("there can be from 1 to %d goroutines, not %d", most, c.Goroutines)
	case c.Locks < 1 || c.Locks > c.Goroutines:
		return fmt.Errorf("%d goroutines can be divided among 1 to %d locks, not %d", c.Goroutines, c.Goroutines, c.Locks)
	case c.Duration <= 0 || c.Duration > longest:
		return fmt.Errorf("a duration of %v is not above 0, or longer than %v", c.Duration, longest)
	case c.Hold < 0:
		return fmt.Errorf("a hold of %v is negative", c.Hold)
	case c.Prefix == "":
		return errors.New("the prefix of the locks' names is empty")
	}
	return nil
}
