// Package holdfast gives Go programs distributed locks on Redis, on the same keys and
// channels as Redisson, so that a Go service and a Java service can share one.
//
//	client, err := holdfast.New(goredisdriver.New(rdb)) // or rueidisdriver, valkeydriver
//	if err != nil { ... }
//	defer client.Close()
//
//	hold, err := client.NewMutex("orders:42").Lock(ctx)
//	if err != nil { ... }
//	defer hold.Unlock()
//	work(hold.Context()) // ends if the lock is lost; its cause matches ErrLost
//
// A [Hold] has a deadline, which a watchdog moves for as long as Redis acknowledges
// renewals. Before the lease can run out, the hold's context ends; docs/guarantees.md has
// the exceptions, such as a forced unlock and a failover. So work under that context, and
// pass it on: a Lock of the same lock under it is nested. Every call has its effect
// once, whatever happens to its messages. Clients, locks and holds are safe for concurrent use.
//
// # Which lock
//
//   - [Mutex]: one owner at a time. With [Fenced], each hold has a token that grows, for
//     a resource that refuses old ones. From [Client.NewFairMutex]: first come, first
//     served, over all processes.
//   - [RWMutex]: many readers or one writer.
//   - [PermitSemaphore]: at most n at a time; the permits of a crashed process come back.
//   - [MultiLock]: several locks, all or none; from [NewRedLock], one lock on more than
//     half of several servers.
//
// [Do] runs a function under a lock, and [Lead] runs it on one of several candidates for
// as long as that one leads.
//
// # How long
//
// Lock waits until the lock is free, its context ends, or [Wait] runs out; TryLock does
// not wait. What is held is renewed until Unlock: [WithLease] says how long the lock of a
// process that crashed blocks others, 30 s by default, and [RenewedLease] says so for one
// hold. [FixedLease] is not renewed. [MinHold] keeps others out after an early Unlock.
//
// # What can go wrong
//
// Errors tell three things apart: another has it ([ErrLocked], as a [*LockedError] that
// says who), Redis failed ([*BackendError], which says whether the call may have had its
// effect), and the caller gave up (the context's own error). A hold that is lost says so
// by the cause of its context, a [*LostError]; so does its Unlock. An invalid argument is
// [ErrInvalid], before anything is sent. With Redis away, a call returns within
// [WithTimeout], 6 s by default, for each time that it asks Redis. A Lock that is already
// waiting tolerates an outage ten times as long. The zero values of Client, Hold and all locks,
// semaphores and latches are not usable: their methods panic.
//
// # Looking at it
//
// Inspect, on every lock, returns its [State]: who holds it, for how long, who waits.
// ForceUnlock takes it away. [Hooks] are told what happens, for metrics and traces. Package
// holdfasttest is for tests of programs that use locks; the guides are in docs/.
//
// # Parity with Redisson
//
// These are for programs that share them with Redisson, or come from it:
// [UnleasedSemaphore], a plain counter of permits without owner or lease; [Latch], which
// waits until others have counted down to zero; the mutex options [Polling] and
// [NonReentrant]; permits that are released or extended by their ids. "Redisson:" names
// what something is called there; docs/from-redisson.md has every method.
package holdfast
