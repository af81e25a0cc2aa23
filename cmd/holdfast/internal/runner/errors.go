//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// what names what is held while the command runs, and wanted what is waited for.
func (r *run) what() string {
	if r.Kind == Permits {
		return fmt.Sprintf("permit of the semaphore %q", r.Name)
	}
	return fmt.Sprintf("lock %q", r.Name)
}

func (r *run) wanted() string {
	if r.Kind == Permits {
		return "a " + r.what()
	}
	return "the " + r.what()
}

// sayNotGivenBack tells what Unlock has failed with, other than loss.
func (r *run) sayNotGivenBack(err error) {
	if errors.Is(err, holdfast.ErrUntold) {
		r.Log("the %s was given back, but those who wait for it were not told and find out later: %s", r.what(), r.reason(err))
		return
	}
	r.Log("the %s could not be given back, so it ends with its lease within %v: %v", r.what(), r.Lease, exit.Plain(err))
}

// refused is the exit for a lock that was not acquired.
func (r *run) refused(err error) *exit.Error {
	var short *holdfast.PermitsError
	var locked *holdfast.LockedError
	var backend *holdfast.BackendError
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &short) && short.Unset && !r.waits():
		return exit.Because(exit.Usage, "the semaphore %q has no permits yet: give it some by --permits N, or wait for somebody to do so by --wait TIME",
			r.Name)
	case errors.As(err, &short):
		return r.conflict(r.noPermit(short))
	case errors.As(err, &locked):
		return r.conflict(r.heldBy(locked))
	case errors.Is(err, holdfast.ErrOtherKind) && r.tokenIsNone():
		return exit.Because(exit.OtherKind, "the last fencing token of the lock %q in Redis (%s) is no number below 2^53, so there is none after it; "+
			"set %q, by redis-cli SET, to a number above the last one that the resource has seen", r.Name, r.Server, protocol.TokenKey(r.Name))
	case errors.Is(err, holdfast.ErrOtherKind):
		return exit.Because(exit.OtherKind, "%q is another kind of object in Redis (%s)%s; use another name, or its --kind",
			r.Name, r.Server, outOfRange(err))
	case errors.As(err, &backend):
		return exit.Because(exit.Unavailable, "the %s was not acquired, because Redis (%s) cannot be used: %v",
			r.what(), r.Server, connect.Explain(backend.Err))
	default:
		return exit.Of(err)
	}
}

// tokenIsNone reports, of what Redis takes for another kind of object, whether that is the fencing token alone: without it, the lock is one.
func (r *run) tokenIsNone() bool {
	if !r.Fenced {
		return false
	}
	ctx, cancel := context.WithTimeout(r.waiting, askLimit)
	defer cancel()
	_, whole := r.locks(false)
	_, err := whole.Inspect(ctx)
	return err == nil
}

// outOfRange is what a script says of a number that it cannot count with, behind a colon; empty if that is not why it refused.
func outOfRange(err error) string {
	const why = "value is not an integer or out of range"
	if strings.Contains(err.Error(), why) {
		return ": its " + why
	}
	return ""
}

// conflict is the exit because others have the lock.
func (r *run) conflict(why error) *exit.Error {
	if r.Conflict == exit.OK && r.Quiet {
		return exit.Silently(r.Conflict)
	}
	return &exit.Error{Code: r.Conflict, Err: why}
}

func (r *run) heldBy(locked *holdfast.LockedError) error {
	is := "held by another owner"
	switch {
	case !locked.Holder.IsZero():
		is = heldBy(locked.Holder, locked.Who, locked.HeldFor, locked.TTL)
	case r.Kind == Fair:
		is = "held by those who stand in line for it"
	}
	if !r.waits() {
		return fmt.Errorf("the lock %q is %s", r.Name, is)
	}
	return fmt.Errorf("the lock %q was not acquired within %v: it is %s", r.Name, *r.Wait, is)
}

func (r *run) noPermit(short *holdfast.PermitsError) error {
	reason := ""
	if short.Total == 0 {
		reason = ", because it has none: --permits says how many there are"
	}
	if !r.waits() {
		return fmt.Errorf("no permit of the semaphore %q is available%s", r.Name, reason)
	}
	return fmt.Errorf("no permit of the semaphore %q was available within %v%s", r.Name, *r.Wait, reason)
}

// reason is why the lock was lost, or nobody was told, without the lock's name.
func (r *run) reason(err error) string {
	text := exit.Plain(err).Error()
	for _, what := range []error{holdfast.ErrLost, holdfast.ErrUntold} {
		if _, reason, found := strings.Cut(text, what.Error()+": "); found {
			return strings.ReplaceAll(reason, ": holdfast: ", ": ")
		}
	}
	return text
}
