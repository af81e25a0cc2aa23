// Package workloads has what contenders are compared under: a number of goroutines on locks of their own or on one lock, in
// one process or in several. A cell is one contender under one workload in one round; a plan is all of them, in turns.
//
// Whoever is inside a lock checks that nobody else is. A lock and unlock pair that takes too long is cut short, and a cell
// in which nothing moves any more is ended and reported as such, so no contender can hang the run.
//
// Workloads with several processes have a crew: this program, started once more for each process, with a connection of
// its own for each client. All of a crew are in one room.
//
// What a pair costs is read before and after each cell: the server's time on a core, the commands that it has executed, and
// this process's allocations. Which of the commands a client has sent, and which a script has called, only MONITOR
// tells; it slows the server down, so that is counted in one short turn of its own.
//
// # Goroutines
//
// The goroutine that runs a cell owns the cell's workers and waits for them. If a library ignores the end of its context,
// its workers are given up after a bound, the session that they use is closed, and they are reported. In a process of a
// crew, one goroutine waits for the end of the input, and ends the process.
package workloads
