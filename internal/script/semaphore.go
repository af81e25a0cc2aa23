package script

import "github.com/holdfast-go/holdfast/driver"

// Permits are the scripts of the semaphore whose permits have leases.
var Permits = struct {
	Acquire, Release, Renew, Inspect, Count, Lease, Set, Add *driver.Script
}{
	Acquire: assemble("permits", "acquire", "semaphore_next", "permits"),
	Release: assemble("permits", "release", "permits"),
	Renew:   assemble("permits", "renew"),
	Inspect: assemble("permits", "inspect", "permits"),
	Count:   assemble("permits", "count", "permits"),
	Lease:   assemble("permits", "lease", "permits"),
	Set:     assemble("permits", "set", "permits", "calls"),
	Add:     assemble("permits", "add", "permits", "calls"),
}

// Semaphore are the scripts of the semaphore without leases.
var Semaphore = struct {
	Acquire, Undo, Add, Drain, Set, Available *driver.Script
}{
	Acquire:   assemble("semaphore", "acquire", "semaphore_next", "calls", "semaphore"),
	Undo:      assemble("semaphore", "undo", "semaphore_next", "calls", "semaphore"),
	Add:       assemble("semaphore", "add", "calls", "semaphore"),
	Drain:     assemble("semaphore", "drain", "calls", "semaphore"),
	Set:       assemble("semaphore", "set", "calls", "semaphore"),
	Available: assemble("semaphore", "available", "calls"),
}

// SemaphoreLeave is the script by which a waiter of either semaphore leaves.
var SemaphoreLeave = assemble("semaphore", "leave", "semaphore_next")

// assemble is load with parts that several scripts share, between what is common
// to all and the operation.
func assemble(kind, operation string, parts ...string) *driver.Script {
	text := source("common")
	for _, part := range parts {
		text += source(part)
	}
	return driver.NewScript(operation, text+source(kind+"_"+operation))
}
