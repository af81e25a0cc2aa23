// Package interop proves that holdfast and Redisson share locks: the real
// Redisson, of two versions, from its published artifact, in a JVM, on the other
// side of every kind of lock.
//
// # Peers
//
// A [Peer] is a process with a client that obeys one command a line on its standard
// input, "number thread verb kind name arguments", and answers each with its
// number, when it is done. java/ has the program for Redisson; for ours, the test
// binary starts itself once more (obey_test.go). Both know the same verbs, so a test
// is written once and runs both ways. A thread of Java's and an owner of ours are the
// same thing here: whoever a lock belongs to.
//
// A Peer has one goroutine, which reads the answers and ends with the process. The
// mutex guards who waits for which. An answer that nobody waits for any more is
// dropped. Whoever waits is answered with an error when the process ends; tests bound
// every wait, and kill their peers in their cleanups.
//
// # Tests
//
//	shared_test.go         every kind, on every topology, both ways (kinds_test.go, world_test.go)
//	failover_test.go       Sentinel replaces the primary while each kind is held and waited for
//	dying_test.go          waiters of both sides are killed in one fair line
//	soak_test.go           both sides contend (contend_test.go) under a referee (referee_test.go),
//	                       while replies to ours get lost; longer with make interop-long
//	shares_test.go         both sides contend, and neither starves
//	redisson_test.go       what Redisson does wrong, as docs/interop.md says
//	protocol_test.go       the examples of docs/internals/protocol.md, executed
//	from_redisson_test.go  docs/from-redisson.md names every method and setting
//	matrix_test.go         the matrix in docs/interop.md is that of these tests
//
// The referee has one goroutine for each contender that is connected, and one that
// accepts. It answers a contender after it has noted that the contender is inside,
// and a contender leaves before it gives the lock back. So two that the referee has
// seen inside together held the lock together, whatever Redis says.
//
// The tests need a JDK and Maven, and say so.
package interop
