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

// The bounds, which the help of the command line has as well.
const (
	// most is how many goroutines there may be: each has a stack, and waits for itself.
	most = 100_000
	// longest is how long a run may take. Nothing is held for longer.
	longest = 24 * time.Hour
	// shortestRun is too short to measure much, but not nothing.
	shortestRun = time.Millisecond
	// shortestLease is renewed in time on a loaded machine.
	shortestLease = 100 * time.Millisecond
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
	// WithoutHandOver has each pair go through Redis: see [holdfast.WithoutHandOver].
	WithoutHandOver bool
	// Progress is told now and then how far it is, by one goroutine; it may be nil.
	Progress func(elapsed time.Duration, pairs int64)
}

// formsCohorts reports whether one grant of Redis can serve several holds, by handoff or as shared reads.
func (c *Config) formsCohorts() bool {
	return !c.WithoutHandOver && c.Goroutines > c.Locks && (c.Kind == Mutex || c.Kind == Read)
}

func (c *Config) check() error {
	switch {
	case c.Goroutines < 1 || c.Goroutines > most:
		return fmt.Errorf("there can be from 1 to %s goroutines, not %d", grouped(most), c.Goroutines)
	case c.Locks < 1 || c.Locks > c.Goroutines:
		return fmt.Errorf("%s can be divided among 1 to %s, not %d", count(int64(c.Goroutines), "goroutine"), count(int64(c.Goroutines), "lock"), c.Locks)
	case c.Duration < shortestRun || c.Duration > longest:
		return fmt.Errorf("the duration of a run is from 1ms to 24h, not %v", c.Duration)
	case c.Hold < 0 || c.Hold > longest:
		return fmt.Errorf("a lock is held for 0s to 24h, not for %v", c.Hold)
	case c.Lease < shortestLease || c.Lease > longest:
		return fmt.Errorf("a lease is from 100ms to 24h, not %v", c.Lease)
	case c.Prefix == "":
		return errors.New("the prefix of the locks' names is empty")
	}
	return nil
}
