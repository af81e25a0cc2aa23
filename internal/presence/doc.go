// Package presence writes to Redis who a client is, and looks up who others are.
//
// A client has one hash, which expires. The hash is for people: no lock depends on it, no call waits for
// it to be written, and no call fails because of it. [Presence] writes the hash of its own client and reads
// those of others. heldSince adds since when the client holds its locks.
//
// # The task
//
// One goroutine at a time writes, on behalf of its Presence. It is started with Config.Go when there
// is something to write, and ends when there is nothing left. So requests reach Redis in the order in which
// they are made, and the last one decides what stands there.
//
//	         a write is due, or a hold has changed              nothing to write, or a write has failed
//	(idle) ──────────────────────────────────────▶ (writing) ──────────────────────────────────────▶ (idle)
//	  │                                                │
//	  │ Withdraw, and something may stand in Redis     │ Withdraw; the write under way has ended
//	  └──────────────────▶ (farewell) ◀────────────────┘
//	                           │ answered, refused, or the time is over
//	                           ▼
//	                        (ended)
//
// The first write, one every two minutes, and the next one after a failure are full: nothing that the
// hash had before is left in it. Writes between them say only which holds have changed. A write becomes
// due by time alone. It is made by the next acquire, ask of a waiter, or renewal, or by a timer while something is
// held or outlasts the client: a client that does nothing else writes nothing, and its hash expires after six
// minutes. Withdraw makes the farewell: it deletes the hash, or lets it expire with the last hold that outlasts the client.
//
// # Locks
//
// Presence.mu guards its fields below it, heldSince included. It is never held during I/O. The task is
// started with it held; the timer has a goroutine of its own for as long as that takes. The moment at which the next full
// write is due is atomic, because each acquire looks at it. The limit of questions is atomic, too.
//
// # Failures
//
// Config.Do repeats a request as it does for locks. If a write fails all the same, a full one is due ten
// seconds later, or twenty minutes later if the user lacks a right. Until then changes are not collected.
//
// Once Config.Closing has ended, a write under way has a quarter of a second left, or a third of the client's
// timeout if that is less. The farewell has as much, and is sent a second time if the first one is not answered: the first one may
// find a connection that has fallen silent, and the second one uses another. While Close waits for other tasks anyway, the farewell is
// repeated, and afterwards sent up to twice more: during a failover Redis answers late, to releases and to the farewell. What was
// written is forgotten when Redis has answered the farewell, so a second Withdraw repeats a farewell that has failed. Without
// that the hash expires within six minutes, and Close returns the error of Left. A primary that is replaced may delete the hash
// before the new primary learns of it; then the new one keeps it until it expires, without an error.
//
// An answer that comes after its request was given up is ignored: each request sets a state, so a repeated
// one does no harm. A write that was given up at the end may reach Redis after the farewell. So once Redis has answered the
// farewell, and such a write can come no more, the farewell is sent again.
//
// A question that fails leaves out what it was to find. If the user lacks the right to ask, refusals do not
// ask again for twenty minutes.
package presence
