// Package driverkit has what adapters share. An adapter is an implementation of
// [driver.Driver] for one Redis client; programs that use holdfast do not need this package. It
// is as stable as package driver, so an adapter works with later versions of holdfast.
//
// There are three parts, and an adapter may use one of them alone:
//
//   - [Group] sends calls to one server in batches;
//   - [Doubt] says when a call needs a new connection, and [Closed] when the client is closed, and [Missing]
//     that there is none, and [Refused] that a server refuses connections;
//   - [RunAssigner] is the loop in which a listener assigns subscriptions to connections, and
//     [Backoff] says how long it waits after a failure.
//
// [Reply] checks what a script has replied.
//
// # Batches
//
// An adapter has a [Group] for each node. A call that arrives while others are under way waits
// for them. It leaves in one batch with all calls that have arrived by then: one connection, one
// write, one read.
//
// # The states of a call
//
// A call is queued until a worker takes it into a batch. It is under way until the adapter ends
// it with [Call.End], exactly once; [Call.Sending] says when it is sent, which is later if there is no connection yet.
// Its caller waits for the end, and leaves when its context ends:
//
//   - A call that is not sent is withdrawn and never sent. The error says so: MayHaveRun is false.
//   - A call that is sent goes on. The error has MayHaveRun, and Pending if the call has a
//     Late. End then tells Late the result, on the goroutine that calls End.
//   - A call can be sent, or end, in the instant in which its caller leaves. One compare-and-swap decides
//     whether it is sent, and another one whether the caller or Late gets the result; never both.
//
// A call that fails ends like one that succeeds: with an error. The group repeats nothing.
//
// The memory of a call is reused only after its caller has taken the result; End does not touch
// it after that.
//
// # Doubt
//
// The connections to a node are in one of these states:
//
//   - well: the next call is sent.
//   - in doubt: a call was sent and not answered, or was refused by a server that is not the primary, or not yet. A caller that
//     leaves after 200 ms counts as not answered, even if its call was not sent for want of a connection. A process that takes
//     100 ms to schedule a goroutine is too busy to read replies; there a caller that leaves raises no doubt.
//   - being resolved: before the next call is sent, the group calls the adapter's renew function, after which
//     calls use new connections, or connections that have answered since. Other calls wait for that. Then the connections are
//     well, unless a call or renew has raised the doubt again.
//
// Nothing else ends a doubt. An adapter whose calls use the doubtful connections again, although these have not answered, raises the
// doubt itself ([Doubt.Raise]), or records it. A late outcome of a call that was sent before the doubt was resolved raises no doubt.
//
// # Goroutines
//
// A worker is a goroutine of the group that sends one batch after another. A group has two
// workers at most while replies are fast: fewer workers mean larger batches. It has eight at
// most if the round trip is long, or if the server has fallen silent. A worker ends when no
// call has arrived for 50 ms, so a group need not be closed.
//
// A caller leaves whatever its worker does, but a worker ends only when the adapter's send
// function returns. If nobody waits for the rest of a batch any more, its worker is abandoned:
// another one may take its place. There are 64 abandoned workers at most.
//
// With a [Direct] function, a caller sends its call itself if nothing else is under way and the
// last reply took 100 ms at most. This wakes no other goroutine, which would cost as much as the
// reply of a near server. One caller at a time does so; all others use workers. This caller
// cannot leave when its context is cancelled, but it waits [DirectTimeout] at most. If no reply
// comes, or a slow one, callers use workers until the server replies promptly again.
//
// RunAssigner runs on the goroutine of its caller, and starts none.
//
// # Locks
//
// Doubt.mu is held while renew runs. Group.mu guards the queue, the batches under way, the numbers of workers (all, idle and
// abandoned), and whether a caller sends directly. The functions of the adapter, and Late, are
// called without a lock.
package driverkit
