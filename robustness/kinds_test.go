package robustness

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/linear"
)

// simLock is what a schedule does with a lock.
type simLock interface {
	holdfast.Locker
	ForceUnlock(ctx context.Context) (bool, error)
	Inspect(ctx context.Context) (holdfast.State, error)
}

// adopter is a lock whose holds pass between processes.
type adopter interface {
	Adopt(ctx context.Context, owner holdfast.Owner, options ...holdfast.TryOption) (*holdfast.Hold, error)
}

// simKind is a kind of lock in schedules.
type simKind struct {
	name  string
	model linear.Model
	// open makes the lock; shared asks for the side that may be held together.
	open func(c *holdfast.Client, name string, shared bool) simLock
	// hash: the key of the lock is a hash whose time to live is that of its only holder.
	hash bool
	// kept are keys that stay.
	kept func(name string) []string
}

// permits is how many a semaphore has.
const permits = 3

var simKinds = []simKind{
	{name: "mutex", model: linear.Reentrant, hash: true, open: func(c *holdfast.Client, name string, _ bool) simLock { return c.NewMutex(name) }},
	{
		name: "nonreentrant", model: linear.Mutex, hash: true,
		open: func(c *holdfast.Client, name string, _ bool) simLock {
			return c.NewMutex(name, holdfast.NonReentrant())
		},
	},
	{
		name: "fenced", model: linear.Fenced, hash: true,
		open: func(c *holdfast.Client, name string, _ bool) simLock { return c.NewMutex(name, holdfast.Fenced()) },
		kept: tokenKey,
	},
	{
		name: "fair", model: linear.Model{Reentrant: true, Fenced: true, InLine: true}, hash: true,
		open: func(c *holdfast.Client, name string, _ bool) simLock {
			return c.NewFairMutex(name, holdfast.Fenced())
		},
		kept: tokenKey,
	},
	{name: "readwrite", model: linear.ReadWrite, open: func(c *holdfast.Client, name string, shared bool) simLock {
		if shared {
			return c.NewRWMutex(name).RLocker()
		}
		return c.NewRWMutex(name)
	}},
	{name: "writersfirst", model: linear.ReadWrite, open: func(c *holdfast.Client, name string, shared bool) simLock {
		if shared {
			return c.NewRWMutex(name, holdfast.WritersFirst()).RLocker()
		}
		return c.NewRWMutex(name, holdfast.WritersFirst())
	}},
	{
		name: "semaphore", model: linear.Semaphore(permits),
		open: func(c *holdfast.Client, name string, _ bool) simLock {
			return c.NewPermitSemaphore(name, holdfast.Permits(permits))
		},
		kept: func(name string) []string { return []string{name} },
	},
	{name: "latch", model: linear.Latch},
}

func tokenKey(name string) []string {
	if name[0] != '{' {
		name = "{" + name + "}"
	}
	return []string{"redisson_lock_token:" + name}
}

func kindNames() (names []string) {
	for i := range simKinds {
		names = append(names, simKinds[i].name)
	}
	return names
}

func kindNamed(t *testing.T, name string) *simKind {
	for i := range simKinds {
		if simKinds[i].name == name {
			return &simKinds[i]
		}
	}
	t.Fatalf("there is no kind %q", name)
	return nil
}

// nests reports whether an owner may have several holds.
func (k *simKind) nests() bool { return k.model.Reentrant }

// outcomeOf is what came of a call that takes something.
func outcomeOf(err error, try bool) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case try && refused(err):
		return history.Refused
	default:
		return history.Unknown
	}
}
