// Package test holds the tests of holdfast that need a driver. They are a module
// of their own so that the root module requires nothing.
//
// Tests that begin with fake, fakeKinds or the like run on the memory driver under fake
// time: leases, loss, faults, cancellation. The conformance suite in kinds_conformance_test.go runs
// on every driver. topology_test.go runs on real servers of every shape.
// Tests of weak spots carry the tag of the spot in their name (S1, L3, ...);
// docs/internals/weak-spots.md explains them.
//
// The command in pictures/ takes the pictures in docs/looks.
package test
