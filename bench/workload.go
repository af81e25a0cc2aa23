package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A workload is what the goroutines of a cell do.
type workload struct {
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

const (
	aMutex     lockKind = "" // the only kind that all libraries have
	aFairLock  lockKind = "fair"
	aReadWrite lockKind = "read-write"
)

// The names of workloads that goals are about.
const (
	oneLock       = "one-lock"
	manyProcesses = "processes"
	takingTurns   = "handover"
	readMostly    = "read-mostly"
	fairLock      = string(aFairLock)
	longer        = "-1ms" // behind the name: with a longer critical section
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

func workloads() []workload {
	one := workload{ID: oneLock, Title: "64 on one lock", Goroutines: crowdSize, Shared: true}
	many := one
	many.ID, many.Title, many.Processes, many.Ramp = manyProcesses, "8 × 8 on one lock", manyProcess, processRamp
	return []workload{
		{ID: "1", Title: "1 goroutine", Goroutines: 1},
		{ID: "64", Title: "64, a lock each", Goroutines: 64},
		{ID: "256", Title: "256, a lock each", Goroutines: 256},
		{ID: "1024", Title: "1,024, a lock each", Goroutines: 1024},
		one, one.longer("64 on one, 1 ms inside"),
		many, many.longer("8 × 8, 1 ms inside"),
		{
			ID: takingTurns, Title: "2 processes in turns", Goroutines: 2, Shared: true,
			Processes: 2, Ramp: processRamp, Hold: alternateHold, Alternate: true,
		},
		herd(10, "10"), herd(100, "100"), herd(500, "500"), herd(1000, "1,000"),
		{ID: readMostly, Title: "64 readers, 1 % writes", Goroutines: crowdSize, Shared: true, Kind: aReadWrite, WriteEvery: 100},
		{ID: fairLock, Title: "64 on one fair lock", Goroutines: crowdSize, Shared: true, Kind: aFairLock},
	}
}

// longer is the workload with a longer critical section.
func (w workload) longer(title string) workload {
	w.ID, w.Title, w.Hold = w.ID+longer, title, longHold
	return w
}

// herd is n clients for one lock.
func herd(n int, inTitle string) workload {
	return workload{
		ID: "herd-" + strconv.Itoa(n), Title: inTitle + " clients for one lock", Goroutines: n, Shared: true,
		Processes: herdProcesses, Clients: true, Ramp: processRamp + time.Duration(n)*clientRamp, Full: n > 100,
	}
}

// share is how many goroutines of the workload the process of that number has.
func (w workload) share(process int) int {
	return (w.Goroutines + w.Processes - 1 - process) / w.Processes
}

// turns reports whether the lock is handed over from one goroutine to the next.
func (w workload) turns() bool { return w.Shared && w.Kind != aReadWrite }

// suits reports whether the contender takes part in the workload.
func (w workload) suits(c contender) bool {
	switch {
	case c.bare:
		return !w.Shared
	case w.Clients:
		return c.client != inJVM // a thousand clients of it have tens of thousands of threads
	}
	return w.Kind == aMutex || c.kinds
}

// pairs returns what a goroutine does with the lock of that name. The second one is
// for the writers of a read-write lock.
func (w workload) pairs(locks pairer, name string) (each, write pair) {
	if w.Kind == aMutex {
		return locks.pair(name), nil
	}
	kinds, ok := locks.(kindPairer)
	switch {
	case !ok:
		failed := func(context.Context, func()) error { return fmt.Errorf("%T has no lock of the kind %s", locks, w.Kind) }
		return failed, failed
	case w.Kind == aFairLock:
		return kinds.fair(name), nil
	}
	return kinds.readWrite(name)
}

// workloadNamed returns the one of this ID.
func workloadNamed(id string) (workload, bool) {
	all := workloads()
	i := slices.IndexFunc(all, func(w workload) bool { return w.ID == id })
	if i < 0 {
		return workload{}, false
	}
	return all[i], true
}

// An order is what to do for one workload in one round.
type order struct {
	workload

	Prefix string `json:"prefix"` // of the locks' names
	// Window is how long pairs are begun and counted.
	Window time.Duration `json:"window_ns"`
	// Limit is how long a pair may take, and how long there may be none.
	Limit time.Duration `json:"limit_ns"`
}
