// Package waiting is the state machine of one call that waits for a lock: events go in, and what to do comes out. It has no
// I/O, clock, mutex, context or goroutine, and nothing in it is random. A runner in the engine turns replies, messages, channels
// and timers into events.
//
// # States
//
//	                ┌──Slot, with a grant─────────────────────────▶ Granted
//	Behind ──Head──▶ Due ──Slot──▶ Requesting ──Acquired──────────▶ Granted
//	                 ▲                │   └─────Rejected, Failed──▶ Over
//	                 │                │
//	                 │         Refused, Failed
//	                 │                ▼
//	                 └──────────── Asleep
//	                  Timer, Woken,
//	                  Grant, Retry
//
//	HoldingBack, instead of Due, while others go first:  ──Timer, Grant──▶ Due
//	Head leads to Asleep or Over, too, by what the head before has learnt
//	from Behind, HoldingBack, Due and Asleep:  ──Received──▶ HandedOff,  ──Ended──▶ Over
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
// Listed and unlisted waiters, with and without an entry on the waitlist in Redis, share the state Asleep, because every event has
// the same effect on both. An entry decides only how long the waiter sleeps, and whether it subscribes to the release channel.
//
// # Messages
//
// A message counts if it names a request of this wait that is not superseded. The refusal of a request with an ID supersedes the
// requests before it: Redis has replaced their IDs. A message that does not count changes nothing, so messages may be late,
// repeated, forged, or left over from an earlier wait.
//
// A grant message is a late reply to its request. So the hold that it begins is valid for Policy.GrantValid from the first send
// of that request. If less than Policy.GrantMin is left, or the hold must not begin with a message, the waiter sends a request
// and finds that it holds the lock. Others do not go first if the lock is granted already.
//
// A retry message brings the next request forward, and never puts it off.
//
// # Events
//
// An event that is not listed for a state changes nothing. TestTable compares the list with the machine. After a reply or a failure
// a waiter subscribes to the release channel if it is unlisted or Beside (Listen), and leaves it otherwise (Unlisten): a Transient
// failure is shown for a listed waiter, Moving and the reply to a plain request for an unlisted one.
//
//	event     state        if                                              then         do
//
//	Head      Behind       the head before failed, since SharesFailureAt   Over         ShareFailure
//	          Behind       no waitlist, and a head had a reply             Asleep       Listen
//	          Behind       others go first                                 HoldingBack  –
//	          Behind                                                       Due          –
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
//	Grant     HoldingBack  it counts                                       Due          –
//	          Due          it counts                                       Due          –
//	          Asleep       it counts                                       Due          –
//
//	Retry     Asleep       it counts, and says now                         Due          –
//	          Asleep       it counts, and says now; others go first        HoldingBack  –
//	          Asleep       it counts, and says before Until                Asleep       Remember
//	          Asleep       it counts, and says later                       Asleep       –
//
//	Woken     Asleep       others go first                                 HoldingBack  –
//	          Asleep                                                       Due          –
//
//	Timer     Behind       at ClosesCohortAt                               Behind       CloseCohort
//	          HoldingBack  at Until; others go first again                 HoldingBack  –
//	          HoldingBack  at Until                                        Due          –
//	          Asleep       at Until; others go first                       HoldingBack  –
//	          Asleep       at Until                                        Due          –
//
//	Received  Behind                                                       HandedOff    –
//	          HoldingBack                                                  HandedOff    Forget, PassOn
//	          Due                                                          HandedOff    Forget, PassOn
//	          Asleep                                                       HandedOff    Forget
//	          Asleep       after a failure                                 HandedOff    Forget, PassOn
//
//	Ended     Behind                                                       Over         –
//	          HoldingBack                                                  Over         Forget, PassOn
//	          Due                                                          Over         Forget, PassOn
//	          Asleep                                                       Over         Forget
//	          Asleep       after a failure                                 Over         Forget, PassOn
//
// # Kinds
//
// A kind of lock is a [Policy]:
//
//	kind            Lists         and
//	mutex           IfSubscribed  Listens, GrantValid
//	polling mutex   Never         LongestSleep has no bound
//	fair mutex      Always        Listens, Registers, GrantValid
//	read            IfSubscribed  Listens, GrantValid, ClosesCohortAt
//	write, permits  IfSubscribed  Listens, Registers, GrantValid
//	semaphore       Never         Listens, Registers
//	latch           Never         Listens
//
// GrantValid is 0 if a hold is fenced, has a fixed lease, MinHold or MaxHold, or needs replica acknowledgements.
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
//		event = the outcome of a request
//	default:
//		event = the first of what the select below receives
//	}
//
// A wait begins in one of three ways:
//
//   - The call joins its queue behind others. [New] makes the wait, and Head is mostly its first event.
//   - The call was refused before it joined the queue. It goes on as above, and [New] is told that Redis has replied.
//   - The call was first in its queue, and sent a request with the try slot taken. If it was not granted the lock, [Begun] makes
//     the wait, and the outcome of that request is its first event.
//
// So the first request of a call is not the machine's: `ask` in the engine's free.go sends it. A rule about sending belongs there, too.
//
// The select has these cases. In other states the channel is nil.
//
//	in                        receives from           reports
//	Behind                    the head channel        Received if a hold was handed off, else Head: it takes the failure
//	                                                  that the queue keeps
//	Due                       the try slot            Slot
//	Asleep                    the queue's wake-up     Woken
//	HoldingBack, Due, Asleep  the box                 Grant, Retry
//	all                       a timer at Wait.Until   Timer
//	HoldingBack, Due, Asleep  the handoff             Received
//	all                       caller, Wait, closing   Ended
//
// If the client closes, the runner reports Ended rather than Head. Before its first select it tells the WaitObserver that the call
// waits, which may panic. When it has taken the try slot, it checks whether a hold was handed off to it before; if so, it frees
// the slot and reports Received. Otherwise it reports what is in the box, and then Slot.
//
// To send a request [WithID], the runner draws an ID, calls [Wait.Sent], and registers its box for that ID, all before the first
// attempt. It subscribes to the grant channel before its first sleep. The outcome is Acquired, Refused, Rejected or Failed. Only a request needs a context that Wait and Close end.
//
// The box holds one message. A grant in it is replaced by another grant only (a forged retry may displace a true one: the waiter then sleeps as its refusal said), and a message for a request in Do.Forget is removed.
// A grant is put in if it has the whole ID of a request. Other messages have the first half of an ID; the box gets them with the
// whole one. A new subscription to the grant channel wakes the queue's head, because messages may be lost.
//
// If a reply or a grant message ends the wait, the runner leaves the queue and frees the slot in one step: otherwise the next head
// may find the slot taken. The result follows from the state:
//
//	Granted    the hold begins: with a grant of the request that was sent at Wait.GrantSent, or with the last reply if that is zero
//	HandedOff  the hold was received
//	Over       the last reply or failure; the failure of the head before, if ShareFailure came with Head; after Ended, the cause,
//	           unless a hold was handed off before the waiter left the queue
//
// [Wait.LeaveDue] reports in every state, also after a panic, whether the account has to remove the waiter from Redis. If a call
// waits twice, because a hold of the owner's other side was in its way, a leave is due if one of the waits says so.
//
// The machine knows neither errors nor attempts. Whether the error of a call that ends blames Redis depends on how long its
// last request has been without a reply: the engine decides that, in the same way for calls that do not wait.
package waiting
