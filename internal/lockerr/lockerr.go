// Package lockerr has the errors that users match with [errors.Is], and why holds are lost, for
// packages that cannot import the root. The root exports them under names of its own, and says there
// what each one means.
package lockerr

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/visible"
)

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
	Suspended   Reason = "the host was suspended for too long"
	LeaseOver   Reason = "its lease has run out"
	MaxHoldOver Reason = "the time that WithMaxHold allows is over"
	Overwritten Reason = "its name is another kind of object now"
	Parts       Reason = "too few of its parts are held"
)

// Problem puts the name of a lock and a sentence around errors for errors.Is. The sentence may be empty.
func Problem(name, sentence string, causes ...error) error {
	return &problem{name: name, sentence: sentence, causes: causes}
}

// problem puts its text together when it is read, which is rare.
type problem struct {
	name, sentence string
	causes         []error // one or more
}

func (e *problem) Error() string {
	text := fmt.Sprintf("holdfast: %q: %v", e.name, e.causes[0])
	if e.sentence != "" {
		text += ": " + e.sentence
	}
	return visible.Text(text)
}

func (e *problem) Unwrap() []error { return e.causes }

// IsUntold reports whether an error says that the call was done, and not announced. It is false of an error that only has
// Untold as a further cause: that is another call's.
func IsUntold(err error) bool {
	p, ok := err.(*problem)            //nolint:errorlint // not one that has it as a cause
	return ok && p.causes[0] == Untold //nolint:errorlint // nor here
}
