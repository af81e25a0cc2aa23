package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A workload is what the goroutines of a cell do.
type workload struct {
	id         string // for flags and files
	title      string
	goroutines int  // in all processes together
	shared     bool // all on one lock
	kind       lockKind

	// hold is how long each goroutine stays inside the lock.
	hold time.Duration
	// writeEvery is how many pairs of a read-write lock a goroutine does, one of which writes.
	writeEvery int
	// processes is among how many processes the goroutines are divided; 0: they run in
	// this one.
	processes int
	// clients: each goroutine has a client of its own, as if it were alone in its process.
	clients bool
	// alternate: whoever has had the lock asks for it again only after somebody else has
	// got it, so that each pair is a hand-over to somebody who has been waiting.
	alternate bool
	// ramp is how long the goroutines run before anything counts.
	ramp time.Duration
	// full: a smoke run leaves it out.
	full bool
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
	all := []workload{
		{id: "1", title: "1 goroutine", goroutines: 1},
		{id: "64", title: "64, a lock each", goroutines: 64},
		{id: "256", title: "256, a lock each", goroutines: 256},
		{id: "1024", title: "1,024, a lock each", goroutines: 1024},
		{id: oneLock, title: "64 on one lock", goroutines: crowdSize, shared: true},
		{id: oneLock + longer, title: "64 on one, 1 ms inside", goroutines: crowdSize, shared: true, hold: longHold},
		{id: manyProcesses, title: "8 × 8 on one lock", goroutines: crowdSize, shared: true, processes: manyProcess, ramp: processRamp},
		{
			id: manyProcesses + longer, title: "8 × 8, 1 ms inside", goroutines: crowdSize, shared: true,
			processes: manyProcess, ramp: processRamp, hold: longHold,
		},
		{
			id: takingTurns, title: "2 processes in turns", goroutines: 2, shared: true,
			processes: 2, ramp: processRamp, hold: alternateHold, alternate: true,
		},
	}
	for _, n := range []int{10, 100, 500, 1000} {
		all = append(all, herd(n))
	}
	return append(all,
		workload{id: readMostly, title: "64 readers, 1 % writes", goroutines: crowdSize, shared: true, kind: aReadWrite, writeEvery: 100},
		workload{id: fairLock, title: "64 on one fair lock", goroutines: crowdSize, shared: true, kind: aFairLock},
	)
}

// herd is n clients for one lock.
func herd(n int) workload {
	return workload{
		id: "herd-" + strconv.Itoa(n), title: grouped(n) + " clients for one lock", goroutines: n, shared: true,
		processes: herdProcesses, clients: true, ramp: processRamp + time.Duration(n)*clientRamp, full: n > 100,
	}
}

// workloadIDs are the names for the command line.
func workloadIDs() (ids []string) {
	for _, w := range workloads() {
		ids = append(ids, w.id)
	}
	return ids
}

// share is how many goroutines of the workload the process of that number has.
func (w workload) share(process int) int {
	return (w.goroutines + w.processes - 1 - process) / w.processes
}

// suits reports whether the contender takes part in the workload.
func (c contender) suits(w workload) bool {
	switch {
	case c.bare:
		return !w.shared
	case w.clients:
		return c.client != inJVM // a thousand clients of it have tens of thousands of threads
	}
	return w.kind == aMutex || c.kinds
}

// chosenWorkloads are those that the options name; without any, all that fit into the
// run.
func (o *options) chosenWorkloads() (some []workload) {
	named := strings.Split(o.workloads, ",")
	for _, w := range workloads() {
		if o.workloads == "" && (!o.quick || !w.full) || slices.Contains(named, w.id) {
			some = append(some, w)
		}
	}
	return some
}

// unknownWorkload returns what --workloads names and is none; empty if there is nothing.
func (o *options) unknownWorkload() string {
	if o.workloads == "" {
		return ""
	}
	for name := range strings.SplitSeq(o.workloads, ",") {
		if !slices.Contains(workloadIDs(), name) {
			return name
		}
	}
	return ""
}
