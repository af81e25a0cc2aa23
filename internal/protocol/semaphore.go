package protocol

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// SemaphoreChannel is where both kinds of semaphore announce permits. The payload
// is how many are available now, never less than 0.
func SemaphoreChannel(name string) string { return Prefixed(semaphorePrefix, name) }

// PermitsKey is the key of the permits that are held, with the times at which they
// expire.
func PermitsKey(name string) string { return Suffixed(name, permitsSuffix) }

// CallsKey is the key, our own, of the calls that have had their effect lately, and of some that were refused.
func CallsKey(name string) string { return Prefixed(callsPrefix, name) }

// PermitsChannel is the channel, our own, on which the holders of permits hear that others
// have given some back by their ids, or have changed their leases.
func PermitsChannel(name string) string { return Prefixed("holdfast_lost", name) }

// semaphoreScripts are those of the semaphore without leases.
var semaphoreScripts = struct {
	acquire, undo, leave, add, drain, set *driver.Script
}{
	acquire: load("semaphore", "acquire"),
	undo:    load("semaphore", "undo"),
	leave:   load("semaphore", "leave"),
	add:     load("semaphore", "add"),
	drain:   load("semaphore", "drain"),
	set:     load("semaphore", "set"),
}

// Semaphore is a number of permits at its name, which nobody holds.
type Semaphore struct{ Name string }

func (s Semaphore) request(which *driver.Script, args []string, keys ...string) script.Request {
	return script.Request{
		Script: which, Keys: append([]string{s.Name, CallsKey(s.Name)}, keys...),
		Channel: SemaphoreChannel(s.Name), Args: args,
	}
}

// Add makes so many permits more available; if ifExists is set, only if there is a
// semaphore.
func (s Semaphore) Add(o Once, n int, ifExists bool) script.Request {
	request := s.request(semaphoreScripts.add, append(o.args(int64(n)), flag(ifExists)))
	request.Once = true
	return request
}

// Set makes so many permits available, if there is no semaphore.
func (s Semaphore) Set(o Once, n int) script.Request {
	request := s.request(semaphoreScripts.set, o.args(int64(n)))
	request.Once = true
	return request
}

// Drain takes all permits that are available.
func (s Semaphore) Drain(o Once) script.Request { return s.request(semaphoreScripts.drain, o.args(0)) }

// Taking is one acquire of so many permits of a [Semaphore], which has an id of its
// own, and so has what takes it back.
type Taking struct {
	Semaphore

	Once Once
	N    int
	Undo string // 16 random bytes
}

func (t Taking) request(which *driver.Script, last string) script.Request {
	args := append(t.Once.args(int64(t.N)), last)
	return t.Semaphore.request(which, args, ReservationKey(t.Name))
}

// Acquire asks for the permits.
func (t Taking) Acquire(a Acquire) script.Request {
	request := t.request(semaphoreScripts.acquire, flag(a.Waiting))
	request.Acknowledged = true
	return request
}

// Release gives them back, if they were taken.
func (t Taking) Release(string, int, int) script.Request {
	return t.request(semaphoreScripts.undo, t.Undo)
}

// Leave asks that nobody stands back for it any more.
func (t Taking) Leave(string) script.Request {
	return script.Request{
		Script: semaphoreScripts.leave, Keys: []string{t.Name, ReservationKey(t.Name)},
		Channel: SemaphoreChannel(t.Name), Args: []string{t.Once.ID},
	}
}

// Channel is one for all.
func (t Taking) Channel(string) string { return SemaphoreChannel(t.Name) }

// Shortage is what a semaphore says that refuses: why too few permits are to be
// had.
type Shortage struct {
	TTL       time.Duration // of the permits that are held; below 0: unknown
	Available int
	Held      int // below 0: unknown
	Reserved  int // for one who has waited longer
	Exists    bool
}

// ReadShortage reads the refusal of either semaphore.
func ReadShortage(r script.Reply) (Shortage, error) {
	var said [4]int64 // available, held, reserved, exists
	from := max(len(r.Rest)-len(said), 3)
	for i := range said {
		var err error
		if said[i], err = r.Int(from + i); err != nil {
			return Shortage{}, err
		}
	}
	pttl, err := r.Int(0)
	if err != nil {
		return Shortage{}, err
	}
	s := Shortage{TTL: -1, Available: int(said[0]), Held: int(said[1]), Reserved: int(said[2]), Exists: said[3] != 0}
	if pttl >= 0 {
		s.TTL = Milliseconds(pttl)
	}
	return s, nil
}
