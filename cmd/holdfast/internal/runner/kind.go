package runner

import (
	"fmt"

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

// checkKind refuses a kind that is not there, and what a kind cannot do.
func (c *Config) checkKind() error {
	if c.Permits != nil {
		switch {
		case c.Kind != Permits:
			return fmt.Errorf("only a semaphore has permits, not the kind %s", c.Kind)
		case *c.Permits < 1 || *c.Permits > holdfast.MaxCount:
			return fmt.Errorf("a semaphore can be given from 1 to %d permits, not %d", holdfast.MaxCount, *c.Permits)
		}
	}
	switch c.Kind {
	case Mutex, Fair, Write:
		return nil
	case Read, Permits:
		if c.Fenced {
			return fmt.Errorf("the kind %s has no fencing tokens, because many can hold it at once", c.Kind)
		}
		return nil
	default:
		return fmt.Errorf("there is no kind %q", c.Kind)
	}
}
