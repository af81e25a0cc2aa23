package program

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kinds"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/linear"
)

// Lock is what a program does with a lock.
type Lock interface {
	holdfast.Locker
	Inspect(ctx context.Context) (holdfast.State, error)
}

// Forcer is a lock that can be taken from whoever holds it.
type Forcer interface {
	ForceUnlock(ctx context.Context, from ...holdfast.Owner) (bool, error)
}

// Adopter is a lock whose holds pass between processes.
type Adopter interface {
	Adopt(ctx context.Context, owner holdfast.Owner, options ...holdfast.TryOption) (*holdfast.Hold, error)
}

// Kind is a kind of lock.
type Kind struct {
	*protocol.Kind

	Name  string
	Model linear.Model
	// Split: who tries may be refused by others who try, too.
	Split bool
	// Open makes the lock; shared asks for the side that may be held together. nil: it has no holds.
	Open func(c *holdfast.Client, name string, shared bool) Lock
	// Hash: the key of the lock is a hash whose time to live is that of its only holder.
	Hash bool
	// Kept are keys that stay.
	Kept func(name string) []string
}

// Permits is how many a semaphore has.
const Permits = 3

// Kinds are those of the simulation.
var Kinds = []Kind{
	of("mutex", protocol.Variant{Kind: protocol.MutexKind}, linear.Reentrant),
	of("nonreentrant", protocol.Variant{Kind: protocol.MutexKind, NonReentrant: true}, linear.Mutex),
	of("fenced", protocol.Variant{Kind: protocol.MutexKind, Fenced: true}, linear.Fenced),
	of("fair", protocol.Variant{Kind: protocol.FairKind, Fenced: true}, linear.Fenced),
	of("readwrite", protocol.Variant{Kind: protocol.WriteKind}, linear.ReadWrite),
	of("writersfirst", protocol.Variant{Kind: protocol.WriteKind, WritersFirst: true}, linear.ReadWrite),
	{
		Kind: protocol.PermitsKind, Name: "semaphore", Model: linear.Semaphore(Permits),
		Open: func(c *holdfast.Client, name string, _ bool) Lock {
			return c.NewPermitSemaphore(name, holdfast.Permits(Permits))
		},
		Kept: func(name string) []string { return []string{name} },
	},
	{Kind: protocol.LatchKind, Name: "latch", Model: linear.Latch},
}

// of returns a kind whose holds have owners, under a name of the simulation.
func of(name string, v protocol.Variant, model linear.Model) Kind {
	k := Kind{Kind: v.Kind, Name: name, Model: model, Hash: v.Mode == ""}
	k.Open = func(c *holdfast.Client, name string, shared bool) Lock {
		v := v
		if shared {
			v.Kind = protocol.ReadKind
		}
		return kinds.Open(c, v, name).(Lock) //nolint:forcetypeassert // it can be inspected
	}
	if v.Fenced {
		k.Kept = func(name string) []string { return []string{protocol.TokenKey(name)} }
	}
	return k
}

// Names are those of all kinds.
func Names() (names []string) {
	for i := range Kinds {
		names = append(names, Kinds[i].Name)
	}
	return names
}

// Named returns the kind of a name.
func Named(name string) (*Kind, error) {
	for i := range Kinds {
		if Kinds[i].Name == name {
			return &Kinds[i], nil
		}
	}
	return nil, fmt.Errorf("there is no kind %q", name)
}

// nests reports whether an owner may have several holds.
func (k *Kind) nests() bool { return k.Model.Reentrant }

// OutcomeOf is what came of a call that takes something.
func OutcomeOf(err error, try bool) history.Outcome {
	switch {
	case err == nil:
		return history.OK
	case try && refused(err):
		return history.Refused
	default:
		return history.Unknown
	}
}
