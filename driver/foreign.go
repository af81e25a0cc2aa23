package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lateness is how long NotTheCallers waits for a context whose deadline has passed to end: on a busy machine it ends
// later than the client's own timer.
const lateness = time.Second

// NotTheCallers sees to it that the error of a call looks like the end of the caller's context
// if and only if that has ended: clients have deadlines of their own, and so do dials.
// It returns other errors, and nil, as they are. It is for adapters.
func NotTheCallers(ctx context.Context, err error) error {
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != "" {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) && ctx.Done() != nil {
		select {
		case <-ctx.Done():
		case <-time.After(lateness):
		}
	}
	own := *failed
	switch {
	case ctx.Err() != nil:
		own.Err = ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		own.Err = timeoutError{failed.Err.Error()}
	case errors.Is(err, context.Canceled):
		own.Err = fmt.Errorf("the client gave up: %s", failed.Err) //nolint:errorlint // it is not to be recognised
	default:
		return err
	}
	return &own
}

// timeoutError is the end of a client's own deadline. It is a timeout, and not that of a context.
type timeoutError struct{ text string }

func (e timeoutError) Error() string { return "the client gave up: " + e.text }

// Timeout reports true.
func (timeoutError) Timeout() bool { return true }
