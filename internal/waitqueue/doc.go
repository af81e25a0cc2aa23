// Package waitqueue orders the waiters of one process for one lock.
//
// Waiters for a lock form a FIFO queue. Of those who wait only its head talks to Redis,
// so a process has one subscription and one try under way for a lock, however many
// goroutines wait for it. TryLock, nested acquires and the first try of a shared lock do
// not queue.
//
//	Join ──▶ behind ──(those before have left)──▶ at the head ──▶ Leave
//	            └─────(the holder hands over)────────┴──▶ received
//
// While a holder of this process has the lock and will hand it over, or say that it does not
// ([Queue.Resume]), nobody is at the head: there is nothing to ask. HandOver and Leave are decided under
// one mutex, so a waiter has left or was given the lock, not both. What hands the lock over
// runs under that mutex, too, and cancels the context of the hold before: it must have ended
// when the next one begins. Likewise nobody is at the head while there is something that
// newcomers may join ([Queues.SetJoinable]).
//
// A waiter that has gone notes nothing any more, and is told nothing: the queue may be another
// lock's by then.
//
// What the head has learnt belongs to the queue and outlives the head: the
// subscription, the wake-up, and when to try again without one. So a head that leaves
// takes no wake-up with it: what it has not used is still there for the next, and what
// it has used up without getting an answer it gives back ([Waiter.Notify]). A head that gives up
// since Redis does not answer says so to the next ([Waiter.Fail]): else each would try for as long.
//
// A try needs the queue's try slot. Whoever abandons a try leaves the slot taken until it
// is answered or has timed out.
//
// There is no goroutine here: waiters run on their own. The mu of a shard guards its map,
// its queues and their waiters; it is held for a few instructions, never during I/O.
// A queue exists while it has waiters, a holder or something to join, or its try slot is taken.
package waitqueue
