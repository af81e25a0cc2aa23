//go:build unix

package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// plain takes the library's prefix off an error: the tool has the same.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "holdfast: "))
}

// refused is the exit for a lock that was not acquired.
func (r *run) refused(err error) *exit.Error {
	var short *holdfast.PermitsError
	var locked *holdfast.LockedError
	var backend *holdfast.BackendError
	switch {
	case errors.As(err, &short):
		return &exit.Error{Code: exit.NotAcquired, Err: r.noPermit(short)}
	case errors.As(err, &locked):
		return &exit.Error{Code: exit.NotAcquired, Err: r.heldBy(locked)}
	case errors.As(err, &backend):
		return exit.Because(exit.Unavailable, "the lock %q was not acquired, because Redis (%s) did not answer or refused: %v",
			r.Name, r.Server, backend.Err)
	case errors.Is(err, holdfast.ErrInvalidName), errors.Is(err, holdfast.ErrInvalidLease),
		errors.Is(err, holdfast.ErrInvalidOption):
		return &exit.Error{Code: exit.Usage, Err: plain(err)}
	case errors.Is(err, holdfast.ErrLost):
		return &exit.Error{Code: exit.Lost, Err: plain(err)}
	default:
		return &exit.Error{Code: exit.Failed, Err: plain(err)}
	}
}

func (r *run) heldBy(locked *holdfast.LockedError) error {
	holder := "another owner"
	switch {
	case locked.Holder != "":
		holder = locked.Holder
	case r.Kind == Fair:
		holder = "those who stand in line for it"
	}
	if r.Wait == nil || *r.Wait == 0 {
		return fmt.Errorf("the lock %q is held by %s", r.Name, holder)
	}
	return fmt.Errorf("the lock %q was not acquired within %v: it is held by %s", r.Name, *r.Wait, holder)
}

func (r *run) noPermit(short *holdfast.PermitsError) error {
	reason := ""
	if short.Total == 0 {
		reason = ", because it has none: --permits says how many there are"
	}
	if r.Wait == nil || *r.Wait == 0 {
		return fmt.Errorf("no permit of the semaphore %q is available%s", r.Name, reason)
	}
	return fmt.Errorf("no permit of the semaphore %q was available within %v%s", r.Name, *r.Wait, reason)
}

// reason is why the lock was lost, without the lock's name.
func (r *run) reason(err error) string {
	text := plain(err).Error()
	if _, reason, found := strings.Cut(text, holdfast.ErrLost.Error()+": "); found {
		return reason
	}
	return text
}
