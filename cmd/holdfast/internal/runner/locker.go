//go:build unix

package runner

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// locker is the lock of the configuration.
func (r *run) locker() holdfast.Locker {
	// Commands that read may come one after the other without end.
	ofWriter := []holdfast.RWOption{holdfast.WritersFirst()}
	var ofMutex []holdfast.MutexOption
	var ofFair []holdfast.AnyMutexOption
	if r.Fenced {
		fenced := holdfast.Fenced()
		ofMutex, ofFair, ofWriter = append(ofMutex, fenced), append(ofFair, fenced), append(ofWriter, fenced)
	}
	switch r.Kind {
	case Fair:
		return r.client.NewFairMutex(r.Name, ofFair...)
	case Read:
		return r.client.NewRWMutex(r.Name).RLocker()
	case Write:
		return r.client.NewRWMutex(r.Name, ofWriter...)
	case Permits:
		return r.client.NewPermitSemaphore(r.Name)
	default:
		return r.client.NewMutex(r.Name, ofMutex...)
	}
}

// take looks for a run around this one that has the lock, and otherwise waits for it. It is called
// once, in a goroutine of its own.
func (r *run) take() acquired {
	began := time.Now()
	if os.Getenv(lockVariable) == r.Name {
		outer, err := r.outer()
		switch {
		case err == nil:
			return acquired{outer: outer}
		case errors.Is(err, errAlone), errors.Is(err, errLeftGroup):
			r.noticef("%s says that a run of %q is around this one, but %v, so this one is on its own", lockVariable, r.Name, err)
		case !errors.Is(err, holdfast.ErrOtherKind): // a run of another kind, or in another Redis
			return acquired{err: err}
		}
	}
	hold, err := r.lock(began)
	return acquired{hold: hold, err: err}
}

// lock waits for a hold of our own.
func (r *run) lock(began time.Time) (*holdfast.Hold, error) {
	lock := r.locker()
	if semaphore, ok := lock.(*holdfast.PermitSemaphore); ok {
		if err := r.furnish(semaphore); err != nil {
			return nil, err
		}
	}
	var options []holdfast.LockOption
	if r.Wait != nil {
		options = append(options, holdfast.Wait(max(0, *r.Wait-time.Since(began))))
	}
	if r.MinHold > 0 && r.keeps() {
		options = append(options, holdfast.MinHold(r.MinHold))
	}
	return lock.Lock(r.waiting, options...)
}

// keeps reports whether the lock itself is kept from others for its shortest hold, however
// this process ends. Otherwise we wait for that.
func (r *run) keeps() bool { return r.Kind != Read && r.Kind != Permits }

// furnish gives a semaphore the permits that the configuration says it has. If
// it had another number, we are not the only ones to say so.
func (r *run) furnish(semaphore *holdfast.PermitSemaphore) error {
	ctx, cancel := r.withinWait()
	defer cancel()
	found, err := semaphore.Inspect(ctx)
	had := found.Permits
	switch {
	case err != nil:
	case r.Permits == nil && had == 0:
		err = r.checkSet(ctx, semaphore)
	case r.Permits != nil && had != *r.Permits:
		err = semaphore.SetPermits(ctx, *r.Permits)
		if errors.Is(err, holdfast.ErrUntold) {
			r.Log("the semaphore %q was set, but those who wait for it were not told and find out later: %s", r.Name, r.reason(err))
			err = nil
		}
		if err == nil && had != 0 {
			r.noticef("the semaphore %q had %s; it has %d now", r.Name, text.Count(had, "permit"), *r.Permits)
		}
	}
	return unanswered("set", r.Name, err)
}

// waits reports whether the wait has a bound that was asked for, and is no single try.
func (r *run) waits() bool { return r.Wait != nil && *r.Wait > 0 }

// checkSet refuses a semaphore that nobody has given permits: one would wait for ever. Somebody may
// give it some within a wait that was asked for. One that was set to 0 permits is only closed.
func (r *run) checkSet(ctx context.Context, semaphore *holdfast.PermitSemaphore) error {
	hold, err := semaphore.TryLock(ctx)
	var short *holdfast.PermitsError
	switch {
	case err == nil: // it was set meanwhile
		return hold.Unlock()
	case !errors.As(err, &short):
		return err
	case short.Unset && !r.waits():
		return err
	case short.Unset:
		r.noticef("the semaphore %q has no permits yet; --permits says how many there are", r.Name)
	}
	return nil
}
