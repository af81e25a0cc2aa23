// Package driverkit sends calls to one server together. An adapter has a [Group] for each
// node. A call that comes while others are on their way waits for them, and leaves in one
// batch with those that have come meanwhile: one connection, one write, one read.
//
// # States of a call
//
// A call is queued until a worker takes it into a batch. It is under way until the adapter
// ends it ([Call.End]), which it does once for every call of the batch. Its caller waits for
// that, and leaves when its context ends:
//
//   - a queued call is withdrawn, and never sent;
//   - a call that is under way goes on. Its caller is told that it may have run, and
//     driver.Call.Late what came of it, when it ends;
//   - a call that ends in that instant has its outcome returned. One compare-and-swap
//     decides which of the two it is.
//
// The memory of a call is used again only if its caller has taken the outcome: End has
// touched it for the last time then.
//
// # Goroutines
//
// A worker is a goroutine that sends one batch after the other, and waits a little for
// calls before it ends. There are few while answers come fast, since the fewer there are the
// more calls share a batch, and more where the way to the server is long. The adapter's
// send has to return: the client's timeouts bound it. A worker all of whose calls have been
// given up does not count any more, so that others may take its place, and ends when its
// batch does.
//
// A caller sends its call itself if nothing else is under way and the last call was answered
// within 100 ms: then no other goroutine has to be woken, which costs as much as a near server's
// answer does. One at a time does so; those who come meanwhile have workers. It cannot leave
// when its context ends, but if the reply does not come within half a second it gives up, with
// its connection. The next ones have workers then, until the server answers promptly again.
//
// # What a lock guards
//
// Group.mu guards the queue, the batches that are under way, and how many workers there are
// and wait; and whether a caller is its own worker. It is not held while anything is sent, nor while a call is ended.
package driverkit
