package script

import "github.com/holdfast-go/holdfast/driver"

// Permits are the scripts of the semaphore whose permits have leases.
var Permits = struct {
	Acquire, Release, Renew, Inspect, Count, Lease, Set, Add *driver.Script
}{
	Acquire: load("permits", "acquire", "semaphore_next", "permits"),
	Release: load("permits", "release", "permits"),
	Renew:   load("permits", "renew"),
	Inspect: load("permits", "inspect", "permits"),
	Count:   load("permits", "count", "permits"),
	Lease:   load("permits", "lease", "permits"),
	Set:     load("permits", "set", "permits", "calls"),
	Add:     load("permits", "add", "permits", "calls"),
}

// Semaphore are the scripts of the semaphore without leases.
var Semaphore = struct {
	Acquire, Undo, Add, Drain, Set, Available *driver.Script
}{
	Acquire:   load("semaphore", "acquire", "semaphore_next", "calls", "semaphore"),
	Undo:      load("semaphore", "undo", "semaphore_next", "calls", "semaphore"),
	Add:       load("semaphore", "add", "calls", "semaphore"),
	Drain:     load("semaphore", "drain", "calls", "semaphore"),
	Set:       load("semaphore", "set", "calls", "semaphore"),
	Available: load("semaphore", "available", "calls"),
}

// SemaphoreLeave is the script by which a waiter of either semaphore leaves.
var SemaphoreLeave = load("semaphore", "leave", "semaphore_next")
