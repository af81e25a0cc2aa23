package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// traits are what sets one kind of lock apart from the others, beside how Redis is asked.
// Everything else is the same for all. Many locks share them, so they are not changed: a
// lock whose traits differ has a copy.
type traits struct {
	// label is the kind's name, for hooks.
	label string
	// class is which counts in Redis are meant: kinds of one class are the same
	// lock, and an owner has one state at it.
	class string
	// otherSide is the class in which the same owner may hold the lock, too. Then it
	// must not queue behind those who wait for it to leave.
	otherSide string
	// mode is that of the holders of a read-write lock who hold this side of it; empty:
	// all holders hold it.
	mode string
	// queue is which queue of this process waiters stand in; empty: that of the class.
	queue string
	// holderChannel is where holders hear that others have changed what they hold;
	// empty: where waiters hear of releases.
	holderChannel string
	// recheckEvery is the longest time between two checks of a hold, renewed or not; 0:
	// there are none.
	recheckEvery time.Duration
	// longestSleep is how long a waiter sleeps at most between two tries; 0: as long as any kind's.
	longestSleep time.Duration
	// shared says that several owners may hold it at once: when one has been let
	// in, the next waiter may well be, too.
	shared bool
	// readOnly says that to acquire it changes nothing in Redis.
	readOnly bool
	// handsOver says that one hold may pass to the next inside the process.
	handsOver bool
	// sharesHolds says that several holds of this process may share one owner and one count.
	sharesHolds bool
	// permitIDs are those of the permits that are held; nil if the kind has none.
	permitIDs func() []string
	// refusal is the error for a reply that says no; nil makes a [*LockedError].
	refusal func(script.Reply) error

	config  kindConfig
	invalid error // why it cannot be used, or nil
}

// with returns traits with what the options of a lock amount to.
func (t *traits) with(config kindConfig) *traits {
	if config == (kindConfig{}) {
		return t
	}
	own := *t
	own.config, own.invalid = config, config.invalid
	own.handsOver = t.handsOver && !config.fenced && !config.polling
	return &own
}
