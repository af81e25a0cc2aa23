package driver

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// What looks like the end of the caller's context is, and the other way round.
func TestNotTheCallers(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	ending, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	away := errors.New("away")
	for name, row := range map[string]struct {
		ctx  context.Context
		err  error
		want error // that it matches; nil: none of a context
	}{
		"a dial's deadline":   {t.Context(), ConnectionError(os.ErrDeadlineExceeded, true), nil},
		"another's deadline":  {t.Context(), ConnectionError(context.DeadlineExceeded, false), nil},
		"another's cancel":    {t.Context(), ConnectionError(context.Canceled, true), nil},
		"away":                {t.Context(), ConnectionError(away, true), away},
		"cancelled":           {ended, ConnectionError(away, true), context.Canceled},
		"the deadline passed": {expired, ConnectionError(away, true), context.DeadlineExceeded},
		"it ends late":        {overdue{ending}, ConnectionError(os.ErrDeadlineExceeded, true), context.DeadlineExceeded},
		"a server's refusal":  {ended, ServerError("ERR no", away), away},
	} {
		got := NotTheCallers(row.ctx, row.err)
		looks := errors.Is(got, context.DeadlineExceeded) || errors.Is(got, context.Canceled)
		wants := row.want != nil && !errors.Is(row.want, away)
		var before, after *Error
		if !errors.As(row.err, &before) || !errors.As(got, &after) || before.MayHaveRun != after.MayHaveRun || before.Transient != after.Transient {
			t.Errorf("%s: %#v from %#v", name, after, before)
		}
		if looks != wants || row.want != nil && !errors.Is(got, row.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	var timeout interface{ Timeout() bool }
	if err := NotTheCallers(t.Context(), ConnectionError(context.DeadlineExceeded, false)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("another's deadline: %#v is no timeout", err)
	}
	if err := NotTheCallers(ended, nil); err != nil {
		t.Error(err)
	}
}

// overdue is a context whose deadline has passed, whether it has ended or not.
type overdue struct{ context.Context }

// Deadline returns a time that is over.
func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }
