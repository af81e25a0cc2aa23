//go:build unix

package trials

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/robustness/linear"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// kindsOnOne are the kinds of lock that one server, or a cluster, has; kindsOnFive are those of five servers that
// know nothing of each other.
var (
	kindsOnOne = append(program.Names(), "spin", "unleased", "multi", "mixed")
	// A RedLock is one of several kinds.
	kindsOnFive = []string{"redlock", "redlock of fair", "redlock of nonreentrant"}
)

// kindNamed returns a kind. Of five servers there are five clients; nil: it is not going to be opened.
func kindNamed(name string, clients []*holdfast.Client) (*program.Kind, error) {
	of := func(part func(c *holdfast.Client, name string) holdfast.Locker) func(*holdfast.Client, string, bool) program.Lock {
		return func(_ *holdfast.Client, name string, _ bool) program.Lock {
			var parts []holdfast.Locker
			for _, c := range clients {
				parts = append(parts, part(c, name))
			}
			return holdfast.NewRedLock(parts...)
		}
	}
	k := &program.Kind{Name: name, Model: linear.Mutex, Split: true}
	switch name {
	case "spin":
		k.Model, k.Split = linear.Reentrant, false
		k.Open = func(c *holdfast.Client, name string, _ bool) program.Lock {
			return c.NewMutex(name, holdfast.Polling(time.Millisecond, 64*time.Millisecond))
		}
	case "unleased":
		k.Model, k.Split = linear.Semaphore(program.Permits), false
	case "multi": // of one slot
		k.Open = func(c *holdfast.Client, name string, _ bool) program.Lock {
			return holdfast.NewMultiLock(c.NewMutex("{"+name+"}:a"), c.NewMutex("{"+name+"}:b"))
		}
	case "mixed": // of several kinds, in several slots
		k.Open = func(c *holdfast.Client, name string, _ bool) program.Lock {
			return holdfast.NewMultiLock(c.NewFairMutex(name+":a"), c.NewMutex(name+":b", holdfast.NonReentrant()), c.NewRWMutex(name+":c"))
		}
	case "redlock":
		k.Open = of(func(c *holdfast.Client, name string) holdfast.Locker { return c.NewMutex(name) })
	case "redlock of fair":
		k.Open = of(func(c *holdfast.Client, name string) holdfast.Locker { return c.NewFairMutex(name) })
	case "redlock of nonreentrant":
		k.Open = of(func(c *holdfast.Client, name string) holdfast.Locker {
			return c.NewMutex(name, holdfast.NonReentrant())
		})
	default:
		named, err := program.Named(name)
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, strings.Join(append(kindsOnOne, kindsOnFive...), ", "))
		}
		return named, nil
	}
	return k, nil
}
