// Bench compares holdfast with other lock libraries on one Redis server.
//
//	go run ./bench                     from the root: some eight minutes
//	go run ./bench --workloads one-lock,processes --rounds 1    a part of it, for a start
//	go run ./bench --quick             a smoke run of the comparison, --held and --scripts
//	go run ./bench --check             fails if holdfast is only half as good as a goal (reports/goals.go)
//	go run ./bench --redisson          Redisson itself as well, in a JVM: needs a JDK and Maven
//	go run ./bench --report page.md    a page with plots as well; make bench writes docs/benchmarks.md so
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
// Each package imports only packages that stand below it:
//
//	.                     the command line, and what it runs
//	reports               tables, charts, pages, goals, the check
//	workloads/scale       what limits one server, and a cluster
//	workloads/held        locks that are held, and waited for
//	workloads/scripts     the server's time for scripts
//	workloads             the comparison: workloads, cells, rounds
//	contenders            the libraries, each on a client
//	crews                 processes, and how they are told what to do
//	places                servers, clusters, rooms, and what they have spent
//
// Package tails is another measurement, of what faults cost. Command soakchart draws what the soak of robustness/ has counted.
package main
