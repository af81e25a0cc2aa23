// Package waiting is the state machine of one call that waits for a lock: events go in, and what to do comes out. It has no
// I/O, clock, mutex, context or goroutine, and nothing in it is random. A runner in the engine turns replies, messages, channels
// and timers into events.
//
// # States
//
//	Behind ──Head──▶ Due ──Slot──▶ Requesting ──Acquired──▶ Granted
//	                 ▲ │              │    ├──Rejected, Failed──▶ Over
//	                 │ │ a grant that │    │
//	                 │ │ lasts: ▶ Granted  │ Refused, or Failed and Redis may be back soon
//	                 │                     ▼
//	                 └─Timer, Woken, ── Asleep
//	                   Grant, Retry
//
//	instead of Due, while the queue yields to others:  HoldingBack ──Timer, Grant──▶ Due
//	from each state but Requesting:  Received ──▶ HandedOff,  Ended ──▶ Over
//
//	Behind       other waiters of this process are first, or a holder here may hand its hold off
//	HoldingBack  at the head of its queue and about to try, but others go first for a moment
//	Due          about to try: it needs the queue's try slot
//	Requesting   a request is under way; the waiter has the try slot, so nothing is handed off to it
//	Asleep       refused, or without a reply: it sleeps until a time, a wake-up or a message
//	Granted      a reply or a grant message has granted the lock: the hold begins
//	HandedOff    the waiter has received a hold of this process
//	Over         the call has given up, failed, or got a reply that ends it
//
// Whether a sleeping waiter is listed, that is, has an entry on the waitlist in Redis, is a fact and not a state: every event
// means the same to listed and unlisted waiters. It decides how long they sleep, and whether they subscribe to the release
// channel.
//
// # Messages
//
// A message counts if it names a request of this wait that was not superseded: a refusal of a request with an ID supersedes the
// requests before it. All others change nothing, so a message may be late, repeated, forged, or left over from an earlier wait.
// The hold that a grant message begins is valid as if the reply to the request had granted it: from its first send on, for
// Policy.GrantValid. If less than Policy.GrantMin is left of that, or the kind of hold needs more than a grant, the waiter sends
// a request and finds that it holds the lock.
//
// # Events
//
// What is not listed changes nothing, and needs nothing to be done. TestTable compares this list with what the machine does.
//
//	event     state        if                                              then         do
//
//	Head      Behind       the head before failed, since SharesFailureAt   Over         ShareFailure
//	          Behind       no waitlist, and a head had a reply             Asleep       Listen
//	          Behind       the queue yields                                HoldingBack
//	          Behind                                                       Due
//
//	Slot      Due          a grant, and GrantMin is left of it             Granted      Forget, FreeSlot
//	          Due          subscribed, and the kind has a waitlist         Requesting   Send WithID
//	          Due                                                          Requesting   Send Plain
//
//	Acquired  Requesting                                                   Granted      Forget, FreeSlot
//
//	Refused   Requesting   listed                                          Asleep       Forget, Unlisten, Remember, FreeSlot
//	          Requesting   listed anew, for the second time or more        Asleep       Forget, Unsubscribed, Unlisten, Remember, FreeSlot
//	          Requesting   unlisted, or Beside                             Asleep       Forget, Listen, Remember, FreeSlot
//	          Requesting   to a plain request                              Asleep       Listen, Remember, FreeSlot
//
//	Rejected  Requesting                                                   Over         Forget, FreeSlot
//
//	Failed    Requesting   Transient, after a reply                        Asleep       Unlisten, Remember, FreeSlot, ReportOutage
//	          Requesting   Transient, after a failure                      Asleep       Unlisten, Remember, FreeSlot
//	          Requesting   Moving                                          Asleep       Listen, Remember, FreeSlot
//	          Requesting   Transient, for Outage                           Over         Forget, FreeSlot, PassOn, ShareFailure
//	          Requesting   Transient, and never a reply                    Over         Forget, FreeSlot, PassOn, ShareFailure
//	          Requesting   not Transient                                   Over         Forget, FreeSlot, PassOn
//
//	Grant     HoldingBack  it counts                                       Due
//	          Due          it counts                                       Due
//	          Asleep       it counts                                       Due
//
//	Retry     Asleep       it counts, and says now                         Due
//	          Asleep       it counts, and says now; the queue yields       HoldingBack
//	          Asleep       it counts, and says later                       Asleep       Remember
//
//	Woken     Asleep       the queue yields                                HoldingBack
//	          Asleep                                                       Due
//
//	Timer     Behind       at ClosesCohortAt                               Behind       CloseCohort
//	          HoldingBack  at Until                                        Due
//	          Asleep       at Until; the queue yields                      HoldingBack
//	          Asleep       at Until                                        Due
//
//	Received  Behind                                                       HandedOff
//	          HoldingBack                                                  HandedOff    Forget, PassOn
//	          Due                                                          HandedOff    Forget, PassOn
//	          Asleep                                                       HandedOff    Forget
//	          Asleep       after a failure                                 HandedOff    Forget, PassOn
//
//	Ended     Behind                                                       Over
//	          HoldingBack                                                  Over         Forget, PassOn
//	          Due                                                          Over         Forget, PassOn
//	          Asleep                                                       Over         Forget
//	          Asleep       after a failure                                 Over         Forget, PassOn
//
// # Kinds
//
// A kind of lock is a [Policy]:
//
//	kind                      Lists         Listens  Registers  GrantValid
//	mutex                     IfSubscribed  yes      no         yes
//	polling mutex             Never         no       no         0; LongestSleep has no bound
//	fair mutex                Always        yes      yes        yes
//	read, write               IfSubscribed  yes      write      yes
//	permits                   IfSubscribed  yes      yes        yes
//	semaphore                 Never         yes      yes        0
//	latch                     Never         yes      no         0
//	fenced, or a hold with a fixed lease, MinHold, MaxHold or replica acknowledgements: GrantValid 0
//
// # The runner
//
// The runner is a loop on the caller's goroutine:
//
//	do := w.On(mono.Now(), event, queue.Lore())
//	carry out do, in the order of its fields
//	switch {
//	case w.State() >= waiting.Granted:
//		return
//	case do.Send != waiting.Nothing:
//		event = the reply to a request
//	default:
//		event = what comes first, in one select
//	}
//
// A wait begins in one of three ways. A call joins its queue and makes it with [New]; the first event is Head, when the queue says
// so. A call that has sent a request without queueing does the same, and says whether Redis replied. A call that was at the
// head at once has sent its first request with the try slot: it makes the wait with [Begun] if the reply is not all that it
// needs, and reports that reply.
//
// The select has these cases; a channel of another state is nil there.
//
//	in                        receives from           reports
//	Behind                    the head channel        Head, with the failure taken from the queue
//	Due                       the try slot            Slot
//	Asleep                    the queue's wake-up     Woken
//	HoldingBack, Due, Asleep  the box                 Grant, Retry
//	all                       a timer at Wait.Until   Timer
//	all                       the handoff             Received
//	all                       caller, Wait, closing   Ended
//
// With the slot, the runner checks whether a hold was handed off to it before: then it frees the slot and reports Received.
// Otherwise it empties the box, reports what was in there, and reports Slot. Before the first select it tells the WaitObserver
// that the call waits, which may panic.
//
// For a request [WithID] the runner draws an ID, calls [Wait.Sent], and has messages for that ID put into the box, all before the
// first attempt. A request ends as Acquired, Refused, Rejected or Failed. The box has one message: a grant is replaced by a grant
// only, and a message whose request is in Do.Forget is removed. A grant must name the whole ID; another message names it by its
// first half, which whoever fills the box replaces by the ID. A new subscription to the grant channel wakes the queue's head:
// messages may be lost.
//
// The end follows from the state. Granted: the hold begins, with the reply, or, if [Wait.GrantSent] is not zero, with a grant of a
// request that was sent then. HandedOff: the hold was received. Over: the last reply or failure; the failure of the head before,
// if ShareFailure came with Head; else what ended the call. [Wait.LeaveDue] says in every state, also after a panic, whether the
// account has to remove the waiter from Redis. A call that waits twice, since a hold of the owner's other side was in its way,
// combines what both waits say.
//
// Neither errors nor attempts are known here. Whether a silent Redis is to blame for a call that ends follows from when its last
// request was sent: the queue and the engine keep that, also for calls that do not wait.
package waiting
