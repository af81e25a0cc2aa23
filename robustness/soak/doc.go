// Package soak uses every kind of lock on real Redis servers for a long time, and looks whether anything
// accumulates: goroutines, memory, connections, subscriptions, keys. TestSoak draws
// faults from a seed; TestCancels cancels calls at every point on their way. See README.md.
package soak
