// Package held measures locks that are held, 1, 10, ..., and renewed by the library, and goroutines that wait for locks,
// 10, 100, ...: memory, goroutines, and how much of a core the renewals need. Waiters end with their context and are waited
// for.
package held
