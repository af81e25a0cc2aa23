// Package tails measures how long it takes until those who hold a lock, or wait for one, are told
// what a fault means for them: until a holder knows that its lock is lost, and until the next one
// has a lock whose holder has died. It does so for each kind of lock, and for other libraries under the same
// faults, on redis-server processes that it starts.
//
//	go test ./bench/tails                                a few trials of each, and what must hold of each
//	go test ./bench/tails -run 'TestCrash$/^fair$' -trials 1     all trials of one series
//	go test ./bench/tails -run TestLoss -trials 0.25             a quarter of the trials of all losses
//	make tails                                                all trials, and docs/robustness.md with its plots
//
// A measure is one fault and the time that it costs; a subject is a kind of lock, or another library. Each subject
// that a measure fits is a series of samples. With -figures each series is appended to a file, an object a line, of which
// TestPage makes the page (page.tmpl) and the plots.
//
// The measures take a test, as go test chooses among them, runs some at once, and ends what they have started. Those who hold
// or wait and are to be killed or stopped are processes of their own: the test binary, started once
// more (child.go). All are on one machine, so they and Redis have one wall clock.
package tails
