// Package kinds makes a lock of each kind, for the tests and the tool.
package kinds

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Open returns the lock of a name; nil if the kind has no holds. The options are of fencing tokens.
func Open(c *holdfast.Client, v protocol.Variant, name string, tokens ...holdfast.TokenOption) holdfast.Locker {
	var mutex []holdfast.MutexOption
	var fair []holdfast.AnyMutexOption
	var rw []holdfast.RWOption
	add := func(option holdfast.AnyMutexOption) {
		mutex, fair, rw = append(mutex, option), append(fair, option), append(rw, option)
	}
	if v.NonReentrant {
		add(holdfast.NonReentrant())
	}
	if v.Fenced {
		add(holdfast.Fenced(tokens...))
	}
	if v.Polling {
		mutex = append(mutex, holdfast.Polling(time.Millisecond, 128*time.Millisecond))
	}
	if v.WritersFirst {
		rw = append(rw, holdfast.WritersFirst())
	}
	switch v.Kind {
	case protocol.MutexKind:
		return c.NewMutex(name, mutex...)
	case protocol.FairKind:
		return c.NewFairMutex(name, fair...)
	case protocol.ReadKind:
		return c.NewRWMutex(name, rw...).RLocker()
	case protocol.WriteKind:
		return c.NewRWMutex(name, rw...)
	case protocol.PermitsKind:
		return c.NewPermitSemaphore(name)
	}
	return nil
}
