// Package holdfast gives Go programs distributed locks on Redis, on the same
// keys as Redisson, so that a Go service and a Java service can share one.
//
//	client, err := holdfast.New(goredisdriver.New(rdb))
//	if err != nil { ... }
//	defer client.Close()
//
//	hold, err := client.NewMutex("orders:42").Lock(ctx)
//	if err != nil { ... }
//	defer hold.Unlock()
//	work(hold.Context()) // ends if the lock is lost; its cause matches ErrLost
//
// A [Hold] has a deadline, which a watchdog moves for as long as Redis
// acknowledges renewals. Before the lock can be somebody else's, the hold's
// context ends with a cause that matches [ErrLost]. Every call has its effect exactly once,
// whatever happens to its messages.
//
// # Parts
//
//	Mutex, ...        one lock kind a file: a kind's traits, and its protocol (kind.go);
//	                  lock.go is what all locks can do, object.go all semaphores and latches
//	acquire.go        acquiring, and the one loop that waits for it (wait.go)
//	hold.go           a hold, whatever it is of
//	single.go         a hold of one lock, and giving it back
//	owner.go          who holds a lock, and how a context knows it
//	transfer.go       handing a hold over to another owner, in another process too
//	composite.go      a hold of several locks (multi.go, multionescript.go, redlock.go)
//	ownerstate.go     what is known here of one owner at one lock
//	reconcile.go      bringing Redis to what is wanted, in the background too
//	renew.go          batches of renewals for the watchdog
//	inspect.go        reading a lock's state, forced unlock, and the frame of a single call
//	unowned.go        semaphores and latches without an owner: a call has an id instead
//	internal/call     sending a script until its outcome is known
//	internal/protocol what each kind asks of Redis and reads from it, and the Lua
//	internal/         waitqueue, wakeup, watchdog, servertime, tasks, script
//
// # The state of an owner
//
// An ownerState is one owner at one lock in this process: how many holds it has handed
// out, and whether they are lost:
//
//	        granted            nested
//	free ───────────▶ held ⟲ ────────
//	  ▲                │ │
//	  │ last Unlock    │ │ deadline, "not held", forced
//	  ├────────────────┘ ▼
//	  └──────────────── lost      holds are cancelled, and wait for their Unlock
//	    last Unlock
//
// Whoever asks Redis for a change on behalf of an owner takes the owner's op first, and
// keeps it until nothing that was sent can take effect any more. So a late acquire
// cannot follow its release, nor a late release hit the next hold. While nothing goes
// wrong, op is free as soon as Redis has answered. If an attempt was not answered, op
// passes to a goroutine that reconciles: it waits until the attempt is answered or has
// passed its limit, and has Redis at what is wanted.
//
// The limit is part of every script's arguments: after it, by the server's own clock,
// the script does nothing. That is what makes waiting for it an end.
//
// An owner belongs to one client, and its changes come one after another. So a script
// that finds the count it was to set is done: an earlier attempt of the same call has
// seen to it. An acquire that finds a third count does nothing; a release takes what it
// finds up to what may stand, since an acquire before it may not have been answered.
// Unanswered attempts of a granted acquire cannot do harm while the hold lasts, and do
// not keep op: they are reconciled when it is given back. An Unlock that waits for op
// returns as soon as nothing is left to give back; what op is kept for after that
// concerns the next acquire only.
//
// What is lost is kept until its key has certainly gone, for Unlock to remove it; then
// nothing remains of it here, whether or not it is ever unlocked.
//
// The promise is good for requests that are lost or late. It does not cover one that is
// delivered again after it was answered; TCP does not do that, and the drivers see to
// it that clients do not.
//
// # A transfer
//
// Detach ends the giver's use of a clean hold: Redis has confirmed the count 1, it has
// no nested holds, op is free and no attempt can have an effect any more. Nobody renews
// it, and the owner is retired for as long as the key may live, so that nobody locks
// under it again. Adopt is one script: a new owner of the taker's takes the place of the
// giver's, with the count 1 and a new token. Its attempts are as those of an acquire from
// 0 to 1: repeated until answered, and reconciled in the background if the call fails,
// which then releases what it took over. If the giver dies before, or the taker does,
// the lock ends with its lease.
//
// # Goroutines
//
//	user's       Lock and Unlock run on the caller's. Whatever they wait for is
//	             bounded by the context, by Wait, by the timeout, and by Close.
//	attempt      one an attempt of a call (internal/call), until the driver has
//	             answered; counted by Client.tasks. Its caller may have given up by then.
//	reconcile    one an owner whose state in Redis is unknown (reconcile.go), counted by
//	             Client.tasks; bounded by the attempts' limits, or two minutes if the
//	             clocks are far apart, and by the lease if Redis is away. Close waits for
//	             neither clocks that are far apart nor a lease.
//	server       one a server and try of a RedLock, counted by that client's tasks;
//	             ends with the call's context, or within the client's timeout.
//	try slot     one an attempt that its waiter gave up (wait.go), until its outcome is
//	             known: it keeps the queue's try slot; counted by Client.tasks.
//	background   one a call without an owner that is repeated (unowned.go), counted by
//	             Client.tasks; bounded by ten timeouts.
//	side by side one a part while a hold of several locks is extended or given
//	             back; the caller waits for them, or a task of a client does.
//	loss         one a loss, for the hooks, and until its key has gone; counted by
//	             Client.tasks, but for the time in which a user's function runs.
//	watchdog     one, and one a batch of renewals, from the first hold to Close;
//	             one a renewal of a batch that a cluster is moving;
//	             see internal/watchdog.
//	listener     the driver's, from the first wait or long hold to Close.
//
// Close ends all of them and waits, for the client's timeout at most. It does not wait
// for hooks that are running: one of them may have called it.
//
// # Locks
//
//	Client.mu      the map of owners' states, and their reference counts
//	ownerState.op  the right to change things in Redis for the owner; held during I/O
//	ownerState.mu  its other fields, and why its holds have ended; never during I/O
//	composite.mu   the parts of a hold of several locks, and why it has ended
//
// They are taken in the order op, Client.mu, ownerState.mu, composite.mu (the inner one
// first), then the internal ones: waitqueue, wakeup's hub, watchdog. A reference count
// keeps an ownerState in the map: each call under way has one, each hold, and each
// goroutine that reconciles.
//
// # When calls fail
//
// Lock, cancelled or timed out: the place in the queue is left, an unused wake-up is
// passed on, and an attempt under way keeps the queue's try slot and the owner's op until
// it is over; what it has taken is given back. Where waiting leaves something in Redis,
// a place in a fair lock's line or a reservation, that is taken out at once, and again
// once no attempt can put it there any more; if Redis is away, it ends by itself within
// ten seconds. Lock, refused for good: nothing was taken. Unlock, unanswered: the hold is
// over for the caller, nothing renews it, and the release is repeated in the background
// until Redis answers or the lease has ended. A renewal that is answered late, or after
// its hold has ended, changes nothing. A loss is told once, to every hold of the owner.
package holdfast
