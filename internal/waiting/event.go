package waiting

import "time"

// Event is something that has happened to a call that waits: one of the types below.
type Event interface{ event() }

type (
	// Head means that the waiter is at the head of its queue.
	Head struct {
		// Failed reports whether the head before gave up because Redis did not reply.
		Failed bool
	}
	// Slot means that the waiter has the queue's try slot.
	Slot struct {
		// Subscribed reports whether the client receives grant messages for this lock.
		Subscribed bool
	}
	// Acquired is a reply that grants the lock.
	Acquired struct{}
	// Refused is a reply that refuses the lock for now.
	Refused struct {
		// Retry is the longest time until the next request; below 0 if the lock does not expire. A waiter that polls puts its
		// pause in here.
		Retry time.Duration
		// Listed reports whether Redis can grant the lock to the request by a message: it has an ID and an entry. New reports
		// whether the entry was just added, and Beside whether a release may be published on the release channel all the same.
		Listed, New, Beside bool
	}
	// Rejected is a reply that ends the call, such as a changed count.
	Rejected struct{}
	// Failed means that a request ended without a reply, or that Redis cannot serve it.
	Failed struct {
		// Transient reports whether the failure may pass. It is false if the caller, a bound or Close has ended the request.
		Transient bool
		// Moving reports whether a cluster refused the request because it is moving the lock's keys.
		Moving bool
	}
	// Grant is a grant message.
	Grant struct{ ID string }
	// Retry is a message that tells the waiter when to send its next request.
	Retry struct {
		ID    string
		After time.Duration
	}
	// Woken is a wake-up of the queue: by a release message, a new subscription, or a waiter that passed its wake-up on.
	Woken struct{}
	// Timer means that the time of [Wait.Until] has come.
	Timer struct{}
	// Received means that a hold of this process was handed off to the waiter.
	Received struct{}
	// Ended means that the caller's context, Wait, Shutdown or Close ends the call between two requests. During a request,
	// Failed follows.
	Ended struct{}
)

func (Head) event()     {}
func (Slot) event()     {}
func (Acquired) event() {}
func (Refused) event()  {}
func (Rejected) event() {}
func (Failed) event()   {}
func (Grant) event()    {}
func (Retry) event()    {}
func (Woken) event()    {}
func (Timer) event()    {}
func (Received) event() {}
func (Ended) event()    {}

// Do is what the runner does after an event, in the order of the fields.
type Do struct {
	// Forget are requests whose messages are ignored from now on. The slice is valid until the next call of a method.
	Forget []Request
	// Unsubscribed treats the client as one that receives no grant messages of this channel, for a while.
	Unsubscribed bool
	// Listen begins or ends the queue's subscription to the release channel.
	Listen Listen
	// Remember sets the queue's Lore: At to [Wait.Until], and InTouch.
	Remember bool
	// FreeSlot frees the try slot, once the outcome of the last attempt is known.
	FreeSlot bool
	// PassOn wakes the queue's head, because the waiter had a wake-up and got no reply with it.
	PassOn bool
	// ShareFailure gives the failure of this call, or of the head before, to the next head.
	ShareFailure bool
	// CloseCohort lets nobody join the cohort that the queue waits for, and promotes the queue's head.
	CloseCohort bool
	// ReportOutage reports once that Redis does not reply, since the call goes on and returns no error.
	ReportOutage bool
	// Send is the request to send now.
	Send Send
}

// Listen is a change of a subscription.
type Listen uint8

// The changes. Both may be repeated.
const (
	ListenAsBefore Listen = iota
	ListenOn
	ListenOff
)

// Send is a kind of request.
type Send uint8

const (
	// Nothing is to be sent.
	Nothing Send = iota
	// Plain is a request without an ID, which no message can name.
	Plain
	// WithID is a request with a new random ID. If Redis refuses it, the waiter gets an entry on the waitlist.
	WithID
)
