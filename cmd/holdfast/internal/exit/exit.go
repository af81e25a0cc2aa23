// Package exit has the exit codes of the tool, and errors that carry one.
package exit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// The codes. A command that was run gives its own, and 128+n stands for the end
// by signal n.
const (
	OK          = 0
	Failed      = 1
	Usage       = 64
	OtherKind   = 65
	NoLock      = 66
	Unavailable = 69
	NotAcquired = 75
	Lost        = 76
	StillRuns   = 77
	Unfit       = 78
	TimedOut    = 124
	CannotRun   = 126
	NotFound    = 127
	Signal      = 128
)

// Table says what each code means, for the help and the documents.
var Table = []struct{ Code, Means string }{
	{"0", "all went well, or help was asked for"},
	{"1", "a failure that is none of these"},
	{"64", "bad usage"},
	{"65", "the name is another kind of object in Redis"},
	{"66", "there is no lock of that name, or nobody holds it"},
	{"69", "Redis cannot be used: not reached, not allowed, or it refuses writes"},
	{"75", "the lock was not acquired, or not free, in time"},
	{"76", "the lock was lost while the command ran"},
	{"77", "the command could not be stopped, and a part of it still runs"},
	{"78", "holdfast doctor has found a failure, or a warning with --strict"},
	{"124", "the command was stopped by --max-run"},
	{"126", "the command cannot be run"},
	{"127", "the command was not found"},
	{"128+n", "the command, or whatever holdfast was doing, was ended by signal n"},
}

// Error is an error that ends the program with a code.
type Error struct {
	Code int
	Err  error // nil if there is nothing to say
}

// Because returns an error with a code and a sentence.
func Because(code int, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Of returns an error with the code of what the library has refused.
func Of(err error) *Error {
	code := Failed
	var backend *holdfast.BackendError
	switch {
	case errors.Is(err, holdfast.ErrOtherKind):
		code = OtherKind
	case errors.As(err, &backend):
		code = Unavailable
	case errors.Is(err, holdfast.ErrInvalid):
		code = Usage
	case errors.Is(err, holdfast.ErrLost):
		code = Lost
	}
	return &Error{Code: code, Err: Plain(err)}
}

// Plain takes the library's prefix off an error: the tool has the same.
func Plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "holdfast: ")) }

// Silently returns an error with a code and nothing to say.
func Silently(code int) *Error { return &Error{Code: code} }

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
