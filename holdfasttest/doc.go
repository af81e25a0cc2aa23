// Package holdfasttest is for the tests of programs that use holdfast.
//
//	redis := holdfasttest.Start(t)      // a server inside the process, for this test
//	client := redis.Client()            // one for each process that the test plays
//	redis.FailNext(errors.New("away"))  // the next call fails, without an effect
//
// The server executes the real scripts and opens no socket. In a bubble of
// [testing/synctest] it keeps to the bubble's time: a lease of an hour ends in no time.
// (With the race detector, run such tests with -cpu 1: that of Go 1.26 may crash if a
// bubble uses more than one processor, golang/go#78156.)
//
// A hold is lost when its lock is taken away: after mu.ForceUnlock(ctx) the holders of the
// same client are told within a round trip to Redis. When Redis is away for longer than the lease, all are: see
// [Redis.Away].
//
// Code that takes a [holdfast.Locker] can be given a fake; [NewHold] makes the hold that
// it returns. What the package starts, it stops at the end of the test.
package holdfasttest
