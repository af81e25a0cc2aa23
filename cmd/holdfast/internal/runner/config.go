package runner

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Kind is which kind of lock the command runs under.
type Kind string

// The kinds.
const (
	Mutex   Kind = "mutex"   // one at a time
	Fair    Kind = "fair"    // the same, first come, first served over all processes
	Read    Kind = "read"    // any number at once, but never beside Write
	Write   Kind = "write"   // one at a time, and no Read beside it
	Permits Kind = "permits" // a semaphore: so many at once as it has permits
)

// Kinds are all of them, for the command line.
func Kinds() []string {
	return []string{string(Mutex), string(Fair), string(Read), string(Write), string(Permits)}
}

// OnLost says what becomes of the command when the lock is lost.
type OnLost string

// What becomes of the command when the lock is lost.
const (
	Term   OnLost = "term"   // SIGTERM, after the grace SIGKILL
	Kill   OnLost = "kill"   // SIGKILL at once
	Ignore OnLost = "ignore" // nothing
)

const (
	// MinLease is the shortest lease for a runner: it takes time to end a
	// process.
	MinLease = 100 * time.Millisecond
	// DefaultGrace is the grace, where the lease has room for it.
	DefaultGrace = 5 * time.Second
	// longestReserve is the most time that is kept for reaping. A machine with too much to do may come to it
	// seconds later.
	longestReserve = 3 * time.Second
)

// Config says what to run, and how.
type Config struct {
	// Client are options of the client that takes the lock, besides the runner's own.
	Client []holdfast.ClientOption
	// Name is the lock's name.
	Name string
	// Kind is the lock's kind.
	Kind Kind
	// Permits is how many permits a semaphore has; nil: as many as it has.
	Permits *int
	// Fenced gives the command a fencing token.
	Fenced bool
	// Command is the program and its arguments.
	Command []string
	// Redis are the environment variables HOLDFAST_REDIS* that the command gets; it gets none
	// of ours.
	Redis []string
	// Wait bounds the wait for the lock; nil: for ever, 0: one try.
	Wait *time.Duration
	// Conflict is the exit code if another has the lock; 0: that is no failure.
	Conflict int
	// Lease is the lease that the watchdog renews.
	Lease time.Duration
	// OnLost says what becomes of the command when the lock is lost.
	OnLost OnLost
	// Grace is the time between SIGTERM and SIGKILL; nil: [DefaultGrace], or a
	// quarter of the lease if that is less.
	Grace *time.Duration
	// MaxRun stops the command after so long; 0: never.
	MaxRun time.Duration
	// MinHold keeps the lock at least so long.
	MinHold time.Duration
	// Server names the Redis, for errors.
	Server string
	// Log gets one sentence at a time.
	Log func(format string, args ...any)
	// Conceal takes out of a text what must not be shown. Log does so by itself.
	Conceal func(text string) string
	// Quiet leaves out what is no failure, Verbose tells each step.
	Quiet, Verbose bool
	// Status gets one JSON object a line; nil: nothing.
	Status io.Writer
}

// check refuses what cannot work, and sets the grace.
func (c *Config) check() error {
	if err := c.checkKind(); err != nil {
		return err
	}
	switch {
	case c.MinHold != 0 && (c.MinHold < holdfast.MinLease || c.MinHold > holdfast.MaxLease):
		return fmt.Errorf("a shortest hold of %v is not between %v and %v", c.MinHold, holdfast.MinLease, holdfast.MaxLease)
	case c.Lease < MinLease:
		return fmt.Errorf("a lease of %v is too short: it takes a while to stop a command, so the least is %v", c.Lease, MinLease)
	case c.Wait != nil && *c.Wait < 0:
		return fmt.Errorf("a wait of %v is negative", *c.Wait)
	case c.Conflict < 0 || c.Conflict > 255:
		return fmt.Errorf("an exit code of %d is not between 0 and 255", c.Conflict)
	case c.MaxRun < 0:
		return fmt.Errorf("a longest run of %v is negative", c.MaxRun)
	case len(c.Command) == 0 || c.Command[0] == "":
		return errors.New("there is no command to run")
	}
	return c.checkGrace()
}

func (c *Config) checkGrace() error {
	if c.Grace == nil {
		grace := min(DefaultGrace, c.Lease/4)
		c.Grace = &grace
	}
	if longest := c.Lease/2 - c.reserve() - time.Millisecond; *c.Grace < 0 || *c.Grace > longest {
		return fmt.Errorf("a grace of %v does not fit into a lease of %v: the command must be dead before the lock "+
			"can be somebody else's; it may be from 0 to %v", *c.Grace, c.Lease, longest)
	}
	return nil
}

// checkKind refuses what a kind cannot do.
func (c *Config) checkKind() error {
	switch {
	case c.Permits != nil && c.Kind != Permits:
		return fmt.Errorf("only a semaphore has permits, not the kind %s", c.Kind)
	case c.Permits != nil && (*c.Permits < 1 || *c.Permits > holdfast.MaxCount):
		return fmt.Errorf("a semaphore can be given from 1 to %d permits, not %d", holdfast.MaxCount, *c.Permits)
	case c.Fenced && !c.keeps():
		return fmt.Errorf("the kind %s has no fencing tokens, because many can hold it at once", c.Kind)
	}
	return nil
}

// keeps reports whether one at a time holds the lock. Then it is kept from others for its shortest hold, however
// this process ends. Otherwise we wait for that.
func (c *Config) keeps() bool { return c.Kind != Read && c.Kind != Permits }

// reserve is the time kept between SIGKILL and the end of the lock.
func (c *Config) reserve() time.Duration { return min(longestReserve, c.Lease/10) }

// margin is how long before the end of the lock its loss must be known.
func (c *Config) margin() time.Duration {
	switch c.OnLost {
	case Ignore:
		return 0
	case Kill:
		return c.reserve()
	default:
		return *c.Grace + c.reserve()
	}
}
