// Package protocol has three models of the lock, small enough for all their states to be
// looked at: [Failover], the lock on a primary and its replicas with fencing tokens,
// [HandOver], the lock as it passes from one goroutine or process to the next, and [Line], the
// line in which waiters of many processes stand. Each rule of
// the implementation is a field that can be switched off; the tests see that nothing goes
// wrong with all rules, and that something does without each.
//
// A model is not the code. README.md says which step stands for which function or script,
// and what is left out.
package protocol
