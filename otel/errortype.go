package otel

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// otherType is what the conventions call an error that has no name.
const otherType = "_OTHER"

// errorTypes are what the attribute error.type says of an error: the first one that it matches.
var errorTypes = []struct {
	text    string
	matches func(err error) bool
}{
	{"lost", is(holdfast.ErrLost)}, // before what it was lost of
	{"no_permits", is(holdfast.ErrNoPermits)},
	{"locked", is(holdfast.ErrLocked)},
	{"not_zero", is(holdfast.ErrNotZero)},
	{"not_replicated", is(holdfast.ErrNotReplicated)},
	{"other_kind", is(holdfast.ErrOtherKind)},
	{"backend", isBackend}, // it may have the context errors of the Redis client inside
	{"closed", is(holdfast.ErrClosed)},
	{"timeout", is(context.DeadlineExceeded)},
	{"cancelled", is(context.Canceled)},
	{"invalid", is(holdfast.ErrInvalid)},
	{"reentrant", is(holdfast.ErrReentrant)},
	{"not_held", is(holdfast.ErrNotHeld)},
	{"untold", is(holdfast.ErrUntold)},
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func isBackend(err error) bool {
	var backend *holdfast.BackendError
	return errors.As(err, &backend)
}

// errorType is what error.type says of an error; empty if there is none.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	for _, known := range errorTypes {
		if known.matches(err) {
			return known.text
		}
	}
	return otherType
}

// lossTypes are what error.type says of a loss.
var lossTypes = map[holdfast.LostReason]string{
	holdfast.LostTaken:       "taken",
	holdfast.LostUnanswered:  "unanswered",
	holdfast.LostSuspended:   "suspended",
	holdfast.LostLeaseOver:   "lease_over",
	holdfast.LostMaxHoldOver: "max_hold_over",
	holdfast.LostOverwritten: "overwritten",
	holdfast.LostParts:       "parts",
}

// lossType is what error.type says of a loss.
func lossType(err error) string {
	var lost *holdfast.LostError
	if errors.As(err, &lost) {
		if text, ok := lossTypes[lost.Reason]; ok {
			return text
		}
	}
	return otherType
}
