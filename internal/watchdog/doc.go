// Package watchdog keeps holds alive, and says so when it cannot.
//
// # An entry's life
//
//	          Watch                  deadline passed, or "gone"
//	(nothing) ─────▶ watched ───────────────────────────────────▶ lost
//	                   │ ▲ renewal acknowledged: deadline moves
//	                   │ └──────
//	                   │ Remove
//	                   ▼
//	                removed
//
// A watched entry has a deadline, until which its holder may trust it. Only an
// acknowledged acquire or renewal raises it, and it counts from the moment at
// which that call was sent; SetUntil lowers it. At the deadline the entry is lost, whatever call is
// under way. Lost and removed are final: an answer that comes later changes
// nothing, so a renewal can neither outlive its hold nor end the next one.
//
// An answer in time counts, however late it is read: a renewal that was given up may yet be answered, while
// others are under way, and a busy process reads late. "Held" then raises the deadline as ever, from when that
// renewal was sent, if that is further than what is known. "Gone" may be out of date by then, so Redis is asked
// again. A renewal has no effect in Redis after the deadline with which it was sent.
//
// What an entry stands for may end whatever is renewed, as permits do with their semaphore:
// SetUntil says when. The nearer that end is, the more often it is
// asked about: it may have moved, and nobody said so.
//
// An entry with RecheckEvery is of a lock that others may shorten, as Redisson does with
// read locks: what is left of the promise is asked for again and again, also if it
// is not renewed. That never moves the deadline of one that is not.
//
// Renewals of one group go together if they wait for an answer for about as long, which is a quarter of
// the lease, or Config.Timeout if that is less: a batch waits for as long as the least patient of it.
//
// # Goroutines
//
// The watchdog has one goroutine, which starts with the first entry and owns the
// heap's timer. It never does I/O: each batch of renewals is sent from a
// goroutine of its own, which ends with its answer or its patience, so a server
// that does not answer delays nobody else's renewals. An entry has at most one
// renewal under way. Stop ends and awaits all of them.
//
// # Locks
//
// Watchdog.mu guards the heap and every field of every entry that is watched. Lost and LongHeld are
// called from the watchdog's goroutines without it, and must not block.
//
// # Failures
//
// "Unknown" leaves the deadline where it is and the renewal is repeated soon,
// until the deadline. "Gone" ends the entry at once, whatever came of the rest of its batch. An
// answer that comes after Renew has returned is told by AnsweredLate, on any goroutine. Stop leaves the entries as they are: nobody renews them
// any more, and nobody is told.
//
// # Time
//
// Deadlines are on the clock of package mono, which goes on while the host is suspended and
// which nobody sets. Timers stand still meanwhile, so the watchdog wakes every 50 ms while it
// has entries. Remove and Deadline do not wait for that, they look at the clock themselves.
//
// A wall clock that is set moves no deadline where the time of a suspension is measured, as on
// Linux and Windows. Elsewhere one that is set forward is taken for a suspension: a hold that might
// have lasted is lost, rather than one trusted that has gone.
//
// When the wall clock jumps forward, Redis is asked at once about every entry. It may be
// all that the guest on a paused or restored virtual machine sees of that: no clock of
// its own has gone on, and keys have expired. The answer says which ones.
package watchdog
