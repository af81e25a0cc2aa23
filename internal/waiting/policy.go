package waiting

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// Lists is a condition under which a refused waiter gets an entry on the waitlist in Redis.
type Lists uint8

const (
	// Never is for kinds without a waitlist, and for waiters that poll.
	Never Lists = iota
	// IfSubscribed needs a client that receives grant messages.
	IfSubscribed
	// Always gives an entry to every waiter. Redis sets the time of the next request, also for a waiter that cannot receive
	// grant messages.
	Always
)

// Policy is the data of a kind of lock, a call's options and a client's configuration that decides how the call waits.
type Policy struct {
	Lists Lists
	// Listens reports whether an unlisted waiter subscribes to the release channel. A waiter that polls does not.
	Listens bool
	// Registers reports whether Redis keeps something for a refused waiter even if its request has no ID.
	Registers bool
	// GrantValid is how long a hold that begins with a grant message is valid, counted from the first send of the request that
	// was granted; 0 if a hold must not begin with a message. GrantMin is the least time that must be left of it.
	GrantValid, GrantMin time.Duration
	// LongestSleep bounds a sleep for which Redis has set no time, and every sleep of an unlisted waiter unless Lists is Always.
	LongestSleep time.Duration
	// FailurePause is the sleep after a request to which Redis did not reply, and Outage how long a waiter tolerates that.
	FailurePause, Outage time.Duration
	// SharesFailureAt is the time from which the waiter fails together with the head before it: half the timeout after the start
	// of the call.
	SharesFailureAt mono.Time
	// ClosesCohortAt is when a reader that came too late to join a cohort stops waiting for its end; zero: never.
	ClosesCohortAt mono.Time
}

// Lore is the knowledge that a queue keeps from its heads when they leave.
type Lore struct {
	// NotBefore is when the queue stops letting others go first; zero if it does not.
	NotBefore mono.Time
	// At is when the head sends a request unless it is woken before; zero if no head has had a reply, or been told that the keys move.
	At mono.Time
	// InTouch reports whether Redis has replied to a head, or a holder of this process has or had the lock.
	InTouch bool
}
