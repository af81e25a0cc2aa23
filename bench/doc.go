// Bench compares holdfast with other lock libraries on one Redis server.
//
//	go run ./bench                     from the root: some eight minutes
//	go run ./bench --workloads one-lock,processes --rounds 1    a part of it, for a start
//	go run ./bench --quick             a smoke run of the comparison, --held and --scripts
//	go run ./bench --check             fails if holdfast is only half as good as a goal (goals.go)
//	go run ./bench --redisson          Redisson itself as well, in a JVM: needs a JDK and Maven
//	go run ./bench --report page.md    a page with plots as well; make bench writes docs/benchmarks.md so
//	go run ./bench --json figures      all figures of every round as well, JSON, an object a line
//	go run ./bench --held              what locks cost while they are held or waited for
//	go run ./bench --scale             what limits one server, and clusters of one to three primaries
//	go run ./bench --scripts           what holdfast's scripts cost the server, beside the like of Redisson's
//	go run ./bench --help              all flags
//
// It starts a redis-server of its own unless --redis names one. Every library
// runs every workload on that server, in the same run and in turns (A B C D,
// A B C D, ...), so that a machine which gets slower or faster does so for all
// of them. The tables show the median over the rounds, and of the throughput the
// slowest and the fastest round.
//
// A contender is a library on a client; a workload is a number of goroutines on
// locks of their own or on one lock (workload.go); a cell is one contender under
// one workload in one round. Whoever is inside a lock checks that nobody else is
// (room.go). A lock and unlock pair that takes too long is cut short, and a cell in
// which nothing moves any more is ended and reported as such, so no contender can
// hang the run.
//
// Some workloads have several processes (crew.go). They are this program, started once
// more for each cell, with a connection of their own for each client. They get a request
// and give their figures as JSON, an object a line, on their standard input and output
// (request.go, membermain.go), and they are in one room: a file that all of them map. A
// process ends when its input does, so none outlives the run.
//
// What a pair costs is read before and after each cell: the server's time on a
// core and the commands that it has executed (meter.go), and this process's
// allocations. Which of the commands a client has sent, and which a script has
// called, only MONITOR tells; it slows the server down, so that is counted in one
// short turn of its own (monitor.go).
//
// With --check it measures what goals.go has goals for, in many short rounds, and exits
// with 1 if a ratio is worse than half of its goal (check.go).
//
// With --held it measures locks that are held, 1, 10, ... up to --holds, and renewed by
// the library (held.go), and goroutines that wait for locks, 10, 100, ... up to
// --waiters (waiting.go): memory, goroutines, and how much of a core the renewals need.
//
// With --scale it measures what docs/scale.md is made of (scale.go): what a pair costs each node of
// clusters of one to three primaries, which it starts; what messages between nodes cost; renewals on
// one server, on a cluster, and there with names in hash tags; and subscribers.
//
// With --scripts it measures something else: how long the server executes the two
// scripts of a pair, by its own figures, for holdfast's and for scripts that do what
// Redisson's do. The fastest of many short turns counts, so other programs on the
// machine do not.
//
// With --redisson a JVM is one more contender (redisson.go). It runs whole cells itself
// (java/RedissonBench.java), with a thread for each goroutine, and gets its requests
// and gives its figures as JSON, an object a line, on its standard input and output.
//
// # Goroutines
//
// The goroutine that runs a cell owns the cell's workers and waits for them. If
// a library ignores the end of its context, its workers are given up after a
// bound, the session that they use is closed, and they are reported. The server
// owns the goroutine that waits for the process; stop ends both. With --held, waiters
// end with their context and are waited for. A JVM is killed if it does not end with
// its input; its two goroutines end with it. The monitor has one goroutine, which ends
// with its connection. Each process of a crew has two here, which end with it, and it is
// always waited for; in it, one goroutine waits for the end of the input, and ends the
// process. With --scale, a bare listener has one, which ends with its connection.
package main
