// Package engine acquires, holds and gives back one lock. It knows no options, hooks or
// identities: the root, on top of it, has those. What happens to Redis is in protocol, how
// a script is sent until its outcome is known in call, who waits here in waitqueue, who is
// renewed in watchdog, and how an owner stands at a lock in ledger.
//
// # Who is who
//
//	Engine       one client: what all its locks share
//	Lock         one lock, or one side of a read-write lock
//	span         how long a call may take
//	blockingCall a call that requests a lock until it is granted
//	acquisition  a blockingCall that acquires a hold, for an owner
//	pass         a blockingCall that has no owner, and leaves no hold
//	wait         a blockingCall that waits in the queue of this process: it runs the machine of package waiting
//	mail         what Redis publishes to this client's waiters: a box for each of them
//	grantChannel one channel of that
//	account      one owner at one lock
//	side         one count of an account in Redis; a read-write lock has two
//	Hold         what was acquired; its caller allocates it
//	retirement   owners as which nobody may lock
//	cohort       holds of this process that pass on, or share what was granted once
//
// Those that point to one another are declared in state.go, below all other files; methods are in the file that bears the type's name.
//
// # The way of one Lock
//
//	Acquire ─ claimFor ─┬─ free ───────────────────────────────┬─ ask ─ askBriefly ─┬─▶ granted ─▶ Hold
//	          owner     └─ do: enter ─ takeTurn ─ next ─ fitLease ┘      │ refused      │
//	             known before: account, turn, change, lease          wait.run ───────┴─▶ abandon ─ freeTurn
//
//	Unlock ─ leaveShared or handOver: no word to Redis
//	       └ drop ─ unlock ─ giveBack ─ freeTurn
//
// # Waiting
//
// A waiter queues behind those of its process (package waitqueue). The head of a queue sends requests, and has an entry on the lock's
// waitlist in Redis if the client receives grant messages (mail.go). Package waiting decides what it does next, and [wait] does it, at
// one select. How a kind waits is its [waiting.Policy] (policy.go). What Redis does is in protocol/lua: waitlist.lua for a mutex and a
// read-write lock, permits.lua and fair.lua. A message may overtake the reply to its request, so mail keeps some that name no request.
//
// Permits are known by their ids, which the client makes for each acquire. A request carries them, a grant takes them, and a leave gives
// back these and no others: so it never hits a later wait. Each number of permits has a queue of its own. While the first request of
// such a queue has no reply, others try without queueing, or free permits would be taken one after another.
//
// A hold that begins with a message starts with the lease of a grant. If it lasts for 10 ms, the watchdog requests its full lease.
// Until then it is unconfirmed: Detach asks first.
//
// A waiter that gives up removes its entry, and gives back what was granted meanwhile, with one script. The ledger says when
// ([ledger.Side.StartLeave]), and the turn waits for it. Each side of a read-write lock leaves for itself.
//
// # The turn of an owner
//
// An owner's changes come one after another: who asks Redis for one has the account's turn.
// It is kept until nothing that was asked for can change what is asked next
// ([ledger.Account.Harmless]). freeTurn frees it: mostly at once, else in the background.
//
// # Goroutines
//
//	caller       Lock, Unlock and all else run on the caller's, bounded by its context, by Wait,
//	             by the timeout, and by Close. A waiter's machine belongs to it: the hub's goroutine,
//	             and the one that hands a hold off, only send on its channels.
//	freeTurn     one an account with open attempts, or counts to be given back, or a waiter to take
//	             out of Redis, and one for each side and each leave of it; bounded by the attempts' limits (two minutes if clocks are far
//	             apart), or by the key's end while Redis is away. Counted by Engine.Tasks.
//	try slot     one an attempt that its waiter gave up, until its outcome is known. Counted.
//	loss         one a loss, until the key has gone. Counted.
//	repetition   one a call without an owner that is repeated; bounded by ten timeouts. Counted.
//	timer        one a release that ends a cohort while others wait here: if it is not answered
//	             within 250 ms, they ask. It ends by itself.
//	watchdog     one, and one a batch of renewals: see package watchdog.
//
// Close ends all of them and waits, until its context ends.
//
// # Locks
//
//	account.turn   a semaphore, held during I/O
//	accounts.mu    the maps of accounts
//	account.mu     the ledger, both sides, and how their holds have ended; never during I/O
//	mail.mu        the grant channels, the box of each request, and what is put into boxes
//
// They are taken in this order, then those of a composite in the root, then those of waitqueue,
// wakeup, watchdog, presence. The hub's is held when it calls mail; mail holds its own when it calls
// no hub. Callbacks run with account.mu held: [Observer], [Hold.WhenEnded]. The machine of a wait is
// called with none held.
//
// # When calls fail
//
// Acquire, cancelled or timed out: the queue is left, an unused wake-up is passed on, and open
// attempts keep the try slot and the turn; what they have taken is given back, as is what waiting
// has left in Redis. If Redis does not answer the head of a queue for too long, those behind it that
// have waited for half of the timeout fail with it. Acquire, refused: nothing was taken. Unlock,
// unanswered: the hold is over for its caller, nothing renews it, and the release is repeated until
// Redis answers or the key has gone. A renewal that is answered after its hold has ended changes
// nothing. A loss is told once, to every hold of the run.
//
// The driver reports a late answer to its attempt (call.Attempt.Tell). A late answer to a renewal raises the deadline, on the
// driver's goroutine, if the run that it was sent for is still watched. A call that goes on uses its own late answers; freeTurn's
// goroutine handles the others.
package engine
