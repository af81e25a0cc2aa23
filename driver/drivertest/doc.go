// Package drivertest is the conformance suite for adapters: one behaviour, which
// is the one that package driver's comment promises, checked for every client.
//
// [ExerciseServers] is all that most adapters need. It starts real Redis servers
// on loopback ports, alone, with replicas, behind Sentinel and as clusters, and
// runs [Exercise] on each. Then it injects faults: lost replies, silent
// connections, servers that crash, slots that move.
//
//	func TestServers(t *testing.T) {
//		drivertest.ExerciseServers(t, func(t testing.TB, at drivertest.Endpoint) driver.Driver {
//			client := ... // connects as at says
//			t.Cleanup(client.Close)
//			return New(client)
//		})
//	}
//
// redis-server and redis-cli must be installed; what an old server cannot do is
// skipped. The subtests are parallel, and -parallel bounds how many servers run at
// once. A run takes about a minute.
//
// Other configurations of a client run the part that they concern: [Exercise] with
// [SingleTarget] or [ReplicatedTarget], [CheckOnce], [CheckOnceOnCluster],
// [CheckRedirected]. An adapter that has no such server behind it runs Exercise
// with a [Target] of its own.
//
// # Goroutines
//
// Tests start goroutines and wait for them before they return. The sink that
// the suite listens with appends to a recorder, whose mutex guards the record
// and is held for no longer than that. Tests poll for what they expect and fail
// after ten seconds, or twenty after a fault. One sleeps for a fixed time: it
// observes that nothing happens.
package drivertest
