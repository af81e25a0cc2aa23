package kit

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Further returns one server more, in the same fake time. It is left as clean as
// the first.
func (w *World) Further() *World {
	w.T.Helper()
	server, err := memdriver.NewServer()
	OK(w.T, err)
	w.T.Cleanup(server.Close)
	other := &World{T: w.T, Server: server, Kind: w.Kind, Names: w.Names}
	w.T.Cleanup(func() {
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		other.WantReply("", "KEYS", "*")
		other.WantReply("", "PUBSUB", "CHANNELS")
	})
	return other
}

// Mutexes are plain mutexes of these names.
func Mutexes(c *holdfast.Client, names ...string) (all []holdfast.Locker) {
	for _, name := range names {
		all = append(all, c.NewMutex(name))
	}
	return all
}

// Servers are several servers in memory, and one client of each.
type Servers struct {
	Worlds  []*World
	Clients []*holdfast.Client
	Drivers []*memdriver.Driver
}

// Several returns n servers, w's the first.
func Several(w *World, n int, options ...holdfast.ClientOption) *Servers {
	s := &Servers{Worlds: []*World{w}}
	for range n - 1 {
		s.Worlds = append(s.Worlds, w.Further())
	}
	return s.Again(options...)
}

// Again returns the same servers, with clients of another process.
func (s *Servers) Again(options ...holdfast.ClientOption) *Servers {
	other := &Servers{Worlds: s.Worlds}
	for _, w := range s.Worlds {
		c, d := w.Client(options...)
		other.Clients, other.Drivers = append(other.Clients, c), append(other.Drivers, d)
	}
	return other
}

// Redlock is a RedLock of the mutexes of that name on all of them.
func (s *Servers) Redlock(name string) *holdfast.MultiLock {
	lockers := make([]holdfast.Locker, len(s.Clients))
	for i, c := range s.Clients {
		lockers[i] = c.NewMutex(name)
	}
	return holdfast.NewRedLock(lockers...)
}

// Fault makes the same happen to every call of some of the clients.
func (s *Servers) Fault(f memdriver.Fault, which ...int) {
	for _, i := range which {
		All(s.Drivers[i], f)
	}
}

// WantFree checks that no key is left on any of them.
func (s *Servers) WantFree(t *testing.T) {
	t.Helper()
	for _, w := range s.Worlds {
		w.WantReply("", "KEYS", "*")
	}
}
