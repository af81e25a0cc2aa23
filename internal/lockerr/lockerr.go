// Package lockerr has the errors that users match with [errors.Is], and why holds are lost, for
// packages that cannot import the root. The root exports them under names of its own, and says there
// what each one means.
package lockerr

import "errors"

// The sentinels. The root's name of each begins with Err.
var (
	Locked        = errors.New("held by another owner")
	NoPermits     = errors.New("too few permits are available")
	Lost          = errors.New("the hold was lost")
	NotHeld       = errors.New("not held by this owner")
	Reentrant     = errors.New("held by this owner already")
	OtherKind     = errors.New("the name is another kind of object")
	Untold        = errors.New("done, but those who wait were not told")
	NotReplicated = errors.New("given back, because not enough replicas have it")
	Closed        = errors.New("the client is closed")
	NotZero       = errors.New("the count is not zero")
	Invalid       = errors.New("invalid")
)

// Reason says why a hold was lost, in words for people.
type Reason string

// The reasons. The root's name of each begins with Lost.
const (
	Taken       Reason = "the server says that it is not held"
	Unanswered  Reason = "no renewal was acknowledged in time"
	LeaseOver   Reason = "its lease has run out"
	MaxHoldOver Reason = "the time that WithMaxHold allows is over"
	Overwritten Reason = "its name is another kind of object now"
	Parts       Reason = "too few of its parts are held"
)
