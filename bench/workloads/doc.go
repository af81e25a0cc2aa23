// Package workloads has what contenders are compared under: a number of goroutines on locks of their own or on one lock, in
// one process or in several. A cell is one contender under one workload in one round; a plan is all of them, in turns.
//
// Whoever is inside a lock checks that nobody else is. A lock and unlock pair that takes too long is cut short, and a cell
// in which nothing moves any more is ended and reported as such, so no contender can hang the run.
//
// Workloads with several processes have a crew: this program, started once more for each process, with a connection of
// its own for each client. All of a crew are in one room.
//
// The server's time on a core is read before and after each cell: that is what its pairs cost.
//
// # Goroutines
//
// The goroutine that runs a cell owns the cell's workers and waits for them. If a library ignores the end of its context,
// its workers are given up after a bound, the session that they use is closed, and they are reported. In a process of a
// crew, one goroutine waits for the end of the input, and ends the process.
package workloads
