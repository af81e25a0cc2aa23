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
// A late reply counts, too: Redis may reply to a renewal that was given up while the next one is under way, and a busy
// process reads replies late. A late "held" raises the deadline as any other does, counted from the moment at which that
// renewal was sent. A late "gone" may be out of date, so Redis is asked again. A renewal does not take effect in Redis
// after the deadline that the entry had when it was sent.
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
// The watchdog has one goroutine, which starts with the first entry and sleeps until the
// timer fires. Calls that change an entry set the timer and do not wake the goroutine: most
// holds end before it has to look. Without entries the timer is not set again. The goroutine
// does no I/O: a separate goroutine sends each batch of renewals, and ends with the reply or
// after Budget.Patience, so a server that does not reply delays no other renewal. An entry has
// at most one renewal under way. Stop ends and awaits all of them.
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
// answer that comes after Renew has returned is passed to AnsweredLate, on any goroutine. Stop leaves the entries as they are, without
// renewals or loss reports.
//
// # Time
//
// Deadlines are on the clock of package mono, which keeps running while the host is suspended and
// which nobody sets. Timers stop during a suspension, so the watchdog wakes every 50 ms while it
// has entries. Remove and Overslept do not wait for that: they read the clock themselves.
//
// Setting the wall clock moves no deadline where suspensions are measured, as on Linux and
// Windows. Elsewhere a wall clock that is set forward is taken for a suspension: losing a hold
// that was still valid is better than trusting one that has expired.
//
// When the wall clock jumps forward, the watchdog asks Redis at once about every entry. In a
// virtual machine that was paused or restored, the jump may be the only sign: the guest's clocks
// stood still while keys expired. The replies tell which ones did.
package watchdog
