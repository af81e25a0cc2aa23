package runner

import (
	"errors"
	"fmt"
)

// Kind is which kind of lock the command runs under.
type Kind string

// The kinds.
const (
	Mutex Kind = "mutex" // one at a time
	Read  Kind = "read"  // any number at once, but never beside Write
	Write Kind = "write" // one at a time, and no Read beside it
)

// Kinds are all of them, for the command line.
func Kinds() []string { return []string{string(Mutex), string(Read), string(Write)} }

// checkKind refuses a kind that is not there, and what a kind cannot do.
func (c *Config) checkKind() error {
	switch c.Kind {
	case Mutex, Write:
		return nil
	case Read:
		if c.Fenced {
			return errors.New("there are no fencing tokens for readers, because many of them hold the lock at once")
		}
		return nil
	default:
		return fmt.Errorf("there is no kind %q", c.Kind)
	}
}
