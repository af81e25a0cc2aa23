package waiting

import "github.com/holdfast-go/holdfast/internal/mono"

// State is the state of a wait. The package documentation draws them.
type State uint8

// The states. Granted and those after it are final.
const (
	Behind State = iota
	HoldingBack
	Due
	Requesting
	Asleep
	Granted
	HandedOff
	Over
)

// Request is a request with an ID, as [Do].Forget returns it.
type Request struct {
	ID   string
	sent mono.Time // the first attempt
}

// Wait is the wait of one call. It belongs to one goroutine. Make it with [New] or [Begun].
type Wait struct {
	policy     Policy
	state      State
	at         mono.Time // Behind, HoldingBack, Asleep: when Timer is due; zero: never
	requests   []Request // whose messages count: the last one that was refused, and later ones
	send       Send      // Requesting: the request under way
	granted    mono.Time // when the request was sent that a message has granted; zero: none
	listed     bool      // the last refusal gave it an entry, or found one
	beside     bool      // a listed waiter listens for releases as well
	drops      uint8     // how often it has lost its entry, up to 2
	away       mono.Time // when a request failed first after the last reply; zero: none has
	inTouch    bool      // Redis has replied, or was about to move the lock
	registered bool      // a request was sent that leaves something in Redis if it is refused
	refused    bool      // a request was refused
}

// New returns the wait of a call that has joined its queue. InTouch reports whether Redis has replied to the call before, or to an
// earlier call of its owner that it was behind.
func New(p Policy, inTouch bool) Wait {
	return Wait{policy: p, at: p.ClosesCohortAt, inTouch: inTouch}
}

// Begun returns the wait of a call that is at the head of its queue, has the try slot, and sent its first request at the given
// time, with an ID or, if id is empty, without. InTouch is as for [New].
func Begun(p Policy, inTouch bool, id string, sent mono.Time) Wait {
	w := Wait{policy: p, inTouch: inTouch}
	w.request(id != "")
	if id != "" {
		w.Sent(id, sent)
	}
	return w
}

// State returns the current state.
func (w *Wait) State() State { return w.state }

// Until returns when the runner is to report Timer; zero if it is not.
func (w *Wait) Until() mono.Time { return w.at }

// Sent notes the ID of a request [WithID] before its first attempt is sent.
func (w *Wait) Sent(id string, now mono.Time) {
	w.requests = append(w.requests, Request{id, now})
}

// GrantSent returns, of a wait that is Granted, when the request was sent whose grant message begins the hold; zero if a reply begins
// it. The deadline of the hold counts from then.
func (w *Wait) GrantSent() mono.Time { return w.granted }

// LeaveDue reports whether Redis may keep an entry, a reservation or a grant for the waiter, so that a leave request is due once
// the owner holds nothing on this side. InDoubt reports whether an attempt of the call may still take effect, or may have.
func (w *Wait) LeaveDue(inDoubt bool) bool {
	return w.registered && (inDoubt || w.refused && w.state != Granted)
}

// On changes the state after an event, and returns what to do. Lore is that of the queue at the moment. The documentation of the
// package lists what every event does in every state.
func (w *Wait) On(now mono.Time, e Event, lore Lore) Do {
	switch w.state {
	case Requesting:
		return w.replied(now, e, lore)
	case Behind, HoldingBack, Due, Asleep:
		switch e := e.(type) {
		case Received:
			return w.abandon(HandedOff)
		case Ended:
			return w.abandon(Over)
		case Grant:
			return w.grant(now, e, lore)
		default:
			return w.betweenRequests(now, e, lore)
		}
	default:
		return Do{}
	}
}
