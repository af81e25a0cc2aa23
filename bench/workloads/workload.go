package workloads

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
)

// A Workload is what the goroutines of a cell do.
type Workload struct {
	ID         string   `json:"-"` // for flags and files
	Title      string   `json:"-"`
	Goroutines int      `json:"goroutines"` // in all processes together
	Shared     bool     `json:"shared"`     // all on one lock
	Kind       lockKind `json:"kind"`

	// Hold is how long each goroutine stays inside the lock.
	Hold time.Duration `json:"hold_ns"`
	// WriteEvery is how many pairs of a read-write lock a goroutine does, one of which writes.
	WriteEvery int `json:"write_every"`
	// Processes is among how many processes the goroutines are divided; 0: they run in
	// this one.
	Processes int `json:"processes"`
	// Clients: each goroutine has a client of its own, as if it were alone in its process.
	Clients bool `json:"clients"`
	// Alternate: whoever has had the lock asks for it again only after somebody else has
	// got it, so that each pair is a hand-over to somebody who has been waiting.
	Alternate bool `json:"alternate"`
	// Ramp is how long the goroutines run before anything counts.
	Ramp time.Duration `json:"ramp_ns"`
	// Full: a smoke run leaves it out.
	Full bool `json:"-"`
}

// lockKind is the kind of lock of a workload.
type lockKind string

// The kinds.
const (
	Mutex      lockKind = "" // the only kind that all libraries have
	aFairLock  lockKind = "fair"
	aReadWrite lockKind = "read-write"
)

// The names of workloads that goals are about.
const (
	OneLock       = "one-lock"
	ManyProcesses = "processes"
	TakingTurns   = "handover"
	ReadMostly    = "read-mostly"
	FairLock      = string(aFairLock)
	Longer        = "-1ms" // behind the name: with a longer critical section
)

const (
	crowdSize   = 64
	manyProcess = 8
	// longHold is a critical section that is much longer than a hand-over.
	longHold = time.Millisecond
	// alternateHold is enough time for whoever has just given the lock back to wait for it.
	alternateHold = 3 * time.Millisecond
	// processRamp is how long processes may take to get going.
	processRamp = 150 * time.Millisecond
	// herdProcesses is how many processes the clients of a herd are divided among.
	herdProcesses = 4
	// clientRamp is how long a client of a herd takes to subscribe.
	clientRamp = time.Millisecond
)

// All are all workloads.
func All() []Workload {
	one := Workload{ID: OneLock, Title: "64 on one lock", Goroutines: crowdSize, Shared: true}
	many := one
	many.ID, many.Title, many.Processes, many.Ramp = ManyProcesses, "8 × 8 on one lock", manyProcess, processRamp
	return []Workload{
		{ID: "1", Title: "1 goroutine", Goroutines: 1},
		{ID: "64", Title: "64, a lock each", Goroutines: 64},
		{ID: "256", Title: "256, a lock each", Goroutines: 256},
		{ID: "1024", Title: "1,024, a lock each", Goroutines: 1024},
		one, one.longer("64 on one, 1 ms inside"),
		many, many.longer("8 × 8, 1 ms inside"),
		{
			ID: TakingTurns, Title: "2 processes in turns", Goroutines: 2, Shared: true,
			Processes: 2, Ramp: processRamp, Hold: alternateHold, Alternate: true,
		},
		herd(10, "10"), herd(100, "100"), herd(500, "500"), herd(1000, "1,000"),
		{ID: ReadMostly, Title: "64 readers, 1 % writes", Goroutines: crowdSize, Shared: true, Kind: aReadWrite, WriteEvery: 100},
		{ID: FairLock, Title: "64 on one fair lock", Goroutines: crowdSize, Shared: true, Kind: aFairLock},
	}
}

// longer is the workload with a longer critical section.
func (w Workload) longer(title string) Workload {
	w.ID, w.Title, w.Hold = w.ID+Longer, title, longHold
	return w
}

// herd is n clients for one lock.
func herd(n int, inTitle string) Workload {
	return Workload{
		ID: "herd-" + strconv.Itoa(n), Title: inTitle + " clients for one lock", Goroutines: n, Shared: true,
		Processes: herdProcesses, Clients: true, Ramp: processRamp + time.Duration(n)*clientRamp, Full: n > 100,
	}
}

// share is how many goroutines of the workload the process of that number has.
func (w Workload) share(process int) int {
	return (w.Goroutines + w.Processes - 1 - process) / w.Processes
}

// Turns reports whether the lock is handed over from one goroutine to the next.
func (w Workload) Turns() bool { return w.Shared && w.Kind != aReadWrite }

// Suits reports whether the contender takes part in the workload.
func (w Workload) Suits(c contenders.Contender) bool {
	switch {
	case c.Bare:
		return !w.Shared
	case w.Clients:
		return c.Client != contenders.InJVM // a thousand clients of it have tens of thousands of threads
	}
	return w.Kind == Mutex || c.Kinds
}

// pairs returns what a goroutine does with the lock of that name. The second one is
// for the writers of a read-write lock.
func (w Workload) pairs(locks *contenders.Session, name string) (each, write contenders.Pair) {
	switch w.Kind {
	case aFairLock:
		return locks.Fair(name), nil
	case aReadWrite:
		return locks.ReadWrite(name)
	default:
		return locks.Pair(name), nil
	}
}

// Named returns the one of this ID.
func Named(id string) (Workload, bool) {
	all := All()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.ID == id })
	if i < 0 {
		return Workload{}, false
	}
	return all[i], true
}

// An Order is what to do for one workload in one round.
type Order struct {
	Workload

	Prefix string `json:"prefix"` // of the locks' names
	// Window is how long pairs are begun and counted.
	Window time.Duration `json:"window_ns"`
	// Limit is how long a pair may take, and how long there may be none.
	Limit time.Duration `json:"limit_ns"`
}
