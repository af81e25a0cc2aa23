// Package drivertest is the conformance suite for adapters: one behaviour, which
// is the one that package driver's comment promises, checked against whatever
// an adapter's tests start.
//
//	drivertest.Exercise(t, drivertest.Target{Open: ..., Subscribers: ...})
//
// The suite speaks to the server through the adapter wherever it can. What it
// needs besides is in [Target]. Faults of the network are not part of it; the
// adapters' own tests inject them.
//
// # Goroutines
//
// Tests start goroutines and wait for them before they return. The sink that
// the suite listens with appends to a recorder, whose mutex guards the record
// and is held for no longer than that. Nothing sleeps for a fixed time: tests
// poll for what they expect and fail after ten seconds.
package drivertest
