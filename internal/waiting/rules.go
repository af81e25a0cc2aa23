package waiting

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// This file has what each event does, with the rule behind it.

// betweenRequests handles what a waiter waits for before its next request.
func (w *Wait) betweenRequests(now mono.Time, e Event, lore Lore) Do {
	switch e := e.(type) {
	case Head:
		if w.state == Behind {
			return w.head(now, e, lore)
		}
	case Slot:
		if w.state == Due {
			return w.try(now, e)
		}
	case Woken:
		if w.state == Asleep {
			return w.want(now, lore)
		}
	case Retry:
		if w.state == Asleep {
			return w.retry(now, e, lore)
		}
	case Timer:
		if !w.at.IsZero() && now >= w.at {
			return w.timer(now, lore)
		}
	default: // a reply: there is no request
	}
	return Do{}
}

// replied handles how a request ends.
func (w *Wait) replied(now mono.Time, e Event, lore Lore) (do Do) {
	switch e := e.(type) {
	case Acquired:
		do = w.end(Granted)
	case Rejected:
		do = w.end(Over)
	case Refused:
		do = w.wasRefused(now, e)
	case Failed:
		do = w.failed(now, e, lore)
	default: // messages stay in the box during a request, and a waiter with the try slot is handed nothing off
		return Do{}
	}
	do.FreeSlot = true
	return do
}

// head begins to try. Without a waitlist the waiter goes on where the head before stopped. With one it sends a request at once,
// because the entry of that head is not its own.
func (w *Wait) head(now mono.Time, e Head, lore Lore) Do {
	switch {
	case e.Failed && now >= w.policy.SharesFailureAt:
		do := w.end(Over)
		do.ShareFailure = true
		return do
	case w.policy.Lists == Never && !lore.At.IsZero():
		return w.sleep(lore.At)
	default:
		return w.want(now, lore)
	}
}

// want makes the waiter try, after others if the queue lets others go first. They cannot acquire a lock that is granted already.
func (w *Wait) want(now mono.Time, lore Lore) Do {
	w.state, w.at = Due, 0
	if lore.NotBefore > now && w.granted.IsZero() {
		w.state, w.at = HoldingBack, lore.NotBefore
	}
	return Do{}
}

// try begins the hold with a grant message, or sends a request.
func (w *Wait) try(now mono.Time, e Slot) Do {
	if w.grantLasts(now) {
		do := w.end(Granted)
		do.FreeSlot = true
		return do
	}
	w.granted = 0
	w.request(w.policy.Lists != Never && e.Subscribed)
	return Do{Send: w.send}
}

// grantLasts reports whether a hold can begin with a grant message that was received.
func (w *Wait) grantLasts(now mono.Time) bool {
	valid := w.policy.GrantValid
	return !w.granted.IsZero() && valid > 0 && w.granted.Add(valid).Sub(now) >= w.policy.GrantMin
}

func (w *Wait) request(withID bool) {
	w.state, w.send = Requesting, Plain
	if withID {
		w.send = WithID
	}
	w.registered = w.registered || withID || w.policy.Registers
}

// grant notes a grant message that counts. Of two, the one for the later request is valid for longer.
func (w *Wait) grant(now mono.Time, e Grant, lore Lore) Do {
	i := w.index(e.ID)
	if i < 0 {
		return Do{}
	}
	w.granted = max(w.granted, w.requests[i].sent)
	return w.want(now, lore)
}

// retry brings the next request forward after a retry message that counts. It puts none off: other programs may know the first half of
// an ID, and could keep the waiter asleep with their messages until its entry is stale.
func (w *Wait) retry(now mono.Time, e Retry, lore Lore) Do {
	switch at := now.Add(e.After); {
	case w.index(e.ID) < 0 || at >= w.at:
		return Do{}
	case e.After <= 0:
		return w.want(now, lore)
	default:
		w.at = at
		return Do{Remember: true}
	}
}

func (w *Wait) timer(now mono.Time, lore Lore) Do {
	if w.state == Behind {
		w.at = 0
		return Do{CloseCohort: true}
	}
	return w.want(now, lore)
}

// wasRefused puts a refusal into effect. Requests before one with an ID are superseded. A plain request supersedes none: the last
// one with an ID may still be on the waitlist.
func (w *Wait) wasRefused(now mono.Time, e Refused) Do {
	var forget []Request
	if last := len(w.requests) - 1; w.send == WithID && last > 0 {
		forget, w.requests = w.requests[:last:last], w.requests[last:]
	}
	if w.listed && e.New {
		w.drops = min(w.drops+1, 2)
	}
	dropped := w.listed && e.New && w.drops == 2 // an entry that is lost once may have met a failover
	w.inTouch, w.refused, w.away, w.listed, w.beside = true, true, 0, e.Listed, e.Beside
	pause := e.Retry
	if outside := !e.Listed && w.policy.Lists != Always; pause < 0 || outside && pause > w.policy.LongestSleep {
		pause = w.policy.LongestSleep
	}
	do := w.sleep(now.Add(pause))
	do.Forget, do.Unsubscribed, do.Remember = forget, dropped, true
	return do
}

// failed goes on after a transient failure until the outage has lasted too long. A call to which Redis has never replied gives up:
// the address may be wrong.
func (w *Wait) failed(now mono.Time, e Failed, lore Lore) Do {
	begins := w.away.IsZero()
	if begins {
		w.away = now
	}
	known := w.inTouch || lore.InTouch
	if !e.Transient || !known && !e.Moving || now.Sub(w.away) >= w.policy.Outage {
		do := w.end(Over)
		do.PassOn, do.ShareFailure = true, e.Transient
		return do
	}
	w.inTouch = true
	do := w.sleep(now.Add(w.policy.FailurePause))
	do.Remember, do.ReportOutage = true, begins && !e.Moving
	return do
}

// sleep makes the waiter sleep until a time. An unlisted one listens for releases.
func (w *Wait) sleep(at mono.Time) (do Do) {
	w.state, w.at = Asleep, at
	if w.policy.Listens {
		do.Listen = ListenOn
		if w.listed && !w.beside {
			do.Listen = ListenOff
		}
	}
	return do
}

// abandon ends the wait between two requests. If the waiter was woken and has not tried since, or got no reply, its wake-up is passed
// on to the next head.
func (w *Wait) abandon(s State) Do {
	unused := w.state == HoldingBack || w.state == Due || !w.away.IsZero()
	do := w.end(s)
	do.PassOn = unused
	return do
}

// end ends the wait.
func (w *Wait) end(s State) Do {
	if s != Granted {
		w.granted = 0
	}
	do := Do{Forget: w.requests}
	w.state, w.at, w.requests = s, 0, nil
	return do
}

// index returns where the request with an ID stands among those whose messages count; -1 if it does not.
func (w *Wait) index(id string) int {
	return slices.IndexFunc(w.requests, func(r Request) bool { return r.ID == id })
}
