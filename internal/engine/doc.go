// Package engine acquires, holds and gives back one lock. It knows no options, hooks or
// identities: the root, on top of it, has those. What happens to Redis is in protocol, how
// a script is sent until its outcome is known in call, who waits here in waitqueue, who is
// renewed in watchdog, and how an owner stands at a lock in ledger.
//
// # Who is who
//
//	Engine       one client: what all its locks share
//	Lock         one lock, or one side of a read-write lock
//	asker        one call that asks until the answer is yes: acquire.go, or what leaves no hold
//	acquisition  an asker that acquires a hold, for an owner
//	queued       an asker that waits in the queue of this process
//	wait         a call without an owner that waits there: it runs the machine of package waiting
//	place        its place in the line in Redis, where the first of each process stands
//	mail         what Redis publishes to this client's waiters: a box for each of them
//	grantChannel one channel of that
//	account      one owner at one lock
//	side         one count of an account in Redis; a read-write lock has two
//	Hold         what was acquired; its caller allocates it
//	retirement   owners as which nobody may lock
//	cohort       holds of this process that pass on, or share what was granted once
//
// # The way of one Lock
//
//	Acquire ─ claimFor ─ enter ─ takeTurn ─ next ─ fitLease ─ ask ─┬─ askBriefly ──▶ granted ─▶ Hold
//	          whose it is  account  turn    change   lease         │      ▲              │
//	                                                    waitInQueue┘──────┘              └▶ giveUp ─ freeTurn
//	                                                    refused: stand in line, and wait for a message
//	                                                    or a wake-up
//
//	Unlock ─ leaveShared or handOver: no word to Redis
//	       └ drop ─ giveBack ─ freeTurn
//
// # The line
//
// Those who wait for a plain or a read-write lock, or for permits, stand in a line in Redis: of each
// process, and of each side, the head of its queue. Whoever gives back grants to the first, in the same
// script, for [protocol.LongestGrant] at most, and publishes the number of that one's last ask on the
// channel of its client (mail.go, protocol/lua/line.lua). Of a read-write lock it is the first writer,
// or the readers before the next writer (protocol/lua/rw.lua); each of them stands for itself here.
//
//	outside ──ask, refused──▶ standing ──message──▶ granted
//	   ▲                       │  ▲  │                 ├─ trusted for half the grant: the hold begins
//	   └─Redis takes no line───┘  │  │                 └─ else, or fenced, fixed, MinHold, MaxHold, replicas: ask
//	                              │  └──a second, a word, a new subscription──▶ ask ─┬─ held: granted
//	                              └──────────────────── refused ─────────────────────┘
//
// A client is outside until its channel is subscribed to, and where it has no right to it: it listens
// where Redisson does, and asks as waiters of other kinds do.
//
// A message is the late answer to an ask. Each ask has a random number, so a message says that the
// lock was granted after the ask with that number was sent: the deadline counts from its first
// attempt. A message that is late, doubled, forged or of an earlier wait has no number that counts, or
// one whose deadline has passed. What the numbers of a place are worth ends with a refusal of a later
// ask, and when it leaves. A message may overtake the answer to its ask, so some are kept that nobody
// waits for.
//
// Permits are known by their ids, which the client makes for each acquire. An ask carries them, a grant takes
// them, and a leave gives back these and no others: so it never hits a later wait. Of each process one stands
// in line for each number of permits that is wanted, since those have queues of their own. While the first
// ask of such a queue is not answered, others try beside it, or permits that are free would be had one after
// another. What could go wrong is in protocol/lua/permits.lua.
//
// A hold that begins with a message starts with the lease of a grant. If it lasts for 10 ms, the watchdog requests its full lease.
// Until then it is unconfirmed: Detach asks first.
//
// Who gives up leaves: out of the line, and what was granted meanwhile is given back, in one script.
// A leave would give back a hold of the same owner, too. So it waits until the side is free
// (side.leaves), and the turn waits for it. Each side of a read-write lock leaves for itself: an owner
// asks for one at a time, since its account has one turn, and a leave looks at its own side only.
//
// Those who wait for a fair lock stand in a line of their own ([Traits].AlwaysStands): each of them, also
// outside, and beside Redisson's. Outside, and while one of Redisson's stands in the same line or holds the
// lock, a waiter listens where Redisson tells the next one. Redis says when to ask, wherever it stands.
// All else is as above; what Redis does is in protocol/lua/fair.lua.
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
//	             by the timeout, and by Close.
//	freeTurn     one an account with open attempts, or counts to be given back, or a waiter to take
//	             out of Redis; bounded by the attempts' limits (two minutes if clocks are far
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
//	Engine.mu      the maps of accounts
//	account.mu     the ledger, both sides, and how their holds have ended; never during I/O
//
//	mail.mu        the grant channels, whose each request is, and what is put into boxes
//
// They are taken in this order, then those of a composite in the root, then those of waitqueue,
// wakeup, watchdog, presence. The hub's is held when it calls mail; mail holds its own when it calls
// no hub. Callbacks run with account.mu held: [Observer], [Hold.WhenEnded].
//
// # When calls fail
//
// Acquire, cancelled or timed out: the queue is left, an unused wake-up is passed on, and open
// attempts keep the try slot and the turn; what they have taken is given back. Where waiting
// leaves something in Redis, a place or a reservation, that is taken out. If Redis did not answer the
// head of a queue for too long, those behind it fail with it who have waited for half of the timeout; each
// of the others begins anew. Acquire, refused: nothing was taken. Unlock, unanswered: the hold is over for its caller, nothing renews it, and
// the release is repeated until Redis answers or the key has gone. A renewal that is answered
// after its hold has ended changes nothing. A loss is told once, to every hold of the run.
//
// The driver reports a late answer to its attempt (call.Attempt.Tell). A late answer to a renewal raises the deadline, on the
// driver's goroutine, if the run that it was sent for is still watched. freeTurn's goroutine handles
// the other late answers.
package engine
