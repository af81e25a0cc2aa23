// Package robustness shows that the promises of holdfast hold under faults: programs and faults
// are drawn from a seed, what the clients do is recorded as a history, and the history is
// checked. README.md says what is checked, and how to run it.
//
// Package history records and checks; package linear has models of the locks.
package robustness
