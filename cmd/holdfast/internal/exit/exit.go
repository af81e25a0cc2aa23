// Package exit has the exit codes of the tool, and errors that carry one.
package exit

import "fmt"

// The codes. A command that was run gives its own, and 128+n stands for the end
// by signal n.
const (
	OK          = 0
	Failed      = 1
	Usage       = 64
	OtherKind   = 65
	Unavailable = 69
	NotAcquired = 75
	Lost        = 76
	TimedOut    = 124
	CannotRun   = 126
	NotFound    = 127
	Signal      = 128
)

// Error is an error that ends the program with a code.
type Error struct {
	Code int
	Err  error // nil if there is nothing to say
}

// Because returns an error with a code and a sentence.
func Because(code int, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Silently returns an error with a code and nothing to say.
func Silently(code int) *Error { return &Error{Code: code} }

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
