//go:build unix

package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// find looks a command up as a shell does, before the run waits for the lock. It finds a command in the current directory only if
// PATH contains that.
func find(command string) (string, *exit.Error) {
	path, err := exec.LookPath(command)
	switch {
	case errors.Is(err, exec.ErrDot):
		return "./" + path, nil
	case err != nil:
		return "", cannotRun(command, err)
	}
	return path, nil
}

// execute starts a command by means of do. The kernel does not execute a script without "#!", so /bin/sh runs it, as with execvp
// and in a shell.
func execute(path string, argv []string, do func(path string, argv []string) error) error {
	err := do(path, argv)
	if errors.Is(err, syscall.ENOEXEC) && isText(path) {
		const shell = "/bin/sh"
		err = do(shell, append([]string{shell, path}, argv[1:]...))
	}
	return err
}

// isText reports whether a file may be a script, and is no program for another machine: there is no NUL in its first line.
func isText(path string) bool {
	file, err := os.Open(path) //nolint:gosec // what the user has said
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // nothing was written
	start, err := io.ReadAll(io.LimitReader(file, 128))
	line, _, _ := bytes.Cut(start, []byte("\n"))
	return err == nil && !bytes.Contains(line, []byte{0})
}

// cannotRun tells the two ways in which a command cannot be run apart.
func cannotRun(command string, err error) *exit.Error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exit.Because(exit.NotFound, "the command %q was not found", command)
	}
	var detail *exec.Error
	if errors.As(err, &detail) {
		err = detail.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return exit.Because(exit.CannotRun, "the command %q cannot be run: %v", command, err)
}

type acquired struct {
	hold  *holdfast.Hold
	outer *holdfast.Holder // a run around this one has it already, and there is no hold of our own
	err   error
}

// acquire waits for the lock. A signal that would end a program ends the wait.
func (r *run) acquire() *exit.Error {
	began := time.Now()
	waiting, acquires := context.WithCancel(r.waiting)
	var reporting sync.WaitGroup
	if r.Wait == nil || r.waits() {
		reporting.Go(func() { r.reportWait(waiting) })
	}
	defer func() { acquires(); reporting.Wait() }()
	r.detailf("asks Redis (%s) for %s", r.Server, r.wanted())
	got := make(chan acquired, 1)
	go func() { got <- r.take() }()
	select {
	case a := <-got:
		if a.err != nil {
			return r.refused(a.err)
		}
		acquires()
		reporting.Wait() // it must not say that we wait after we have said that we do not
		if a.outer != nil {
			return r.runUnder(a.outer)
		}
		r.hold, r.since = a.hold, time.Now()
		r.tellAcquired(r.since.Sub(began))
		if s := r.ended(); s != nil { // it came together with the lock
			return r.giveBack(s)
		}
		return nil
	case s := <-r.signals:
		r.giveUp()
		if a := <-got; a.hold != nil {
			r.hold = a.hold
			return r.giveBack(s)
		}
		return endedBy(s)
	}
}

func (r *run) tellAcquired(waited time.Duration) {
	owner, token := r.hold.Owner().String(), r.hold.Token()
	acquired := event{Event: "acquired", WaitedMS: milliseconds(waited), Owner: owner, Token: token}
	if r.Kind == Permits {
		acquired.Owner, acquired.Permit = "", r.hold.PermitIDs()[0].String()
	}
	r.happened(acquired)
	fenced := ""
	if r.Fenced {
		fenced = fmt.Sprintf(", token %d", token)
	}
	r.detailf("acquired the %s after %v, as %s%s", r.what(), waited.Round(time.Millisecond), owner, fenced)
}

// locks are the lock of the configuration, fenced or not, and what is asked who holds it: of one for reading, that may be who writes.
func (r *run) locks(fenced bool) (lock, whole holdfast.Inspector) {
	switch r.Kind {
	case Fair:
		lock = r.client.NewFairMutex(r.Name, given[holdfast.AnyMutexOption](fenced, holdfast.Fenced())...)
	case Read:
		rw := r.client.NewRWMutex(r.Name)
		return rw.RLocker(), rw
	case Write: // commands that read may come one after the other without end
		options := given[holdfast.RWOption](fenced, holdfast.Fenced())
		lock = r.client.NewRWMutex(r.Name, append(options, holdfast.WritersFirst())...)
	case Permits:
		lock = r.client.NewPermitSemaphore(r.Name)
	default:
		lock = r.client.NewMutex(r.Name, given[holdfast.MutexOption](fenced, holdfast.Fenced())...)
	}
	return lock, lock
}

// given are options of which there is one or none.
func given[T any](on bool, option T) []T {
	if on {
		return []T{option}
	}
	return nil
}

// take looks for a run around this one that has the lock, and otherwise waits for it. It is called
// once, in a goroutine of its own.
func (r *run) take() acquired {
	began := time.Now()
	if r.claim.lock != "" && r.claim.lock == r.Name {
		outer, err := r.outer()
		switch {
		case err == nil:
			return acquired{outer: outer}
		case isUnproven(err):
			r.noticef("%s says that a run of %q is around this one, but %v, so this one is on its own", lockVariable, r.Name, err)
		case !errors.Is(err, holdfast.ErrOtherKind): // a run of another kind, or in another Redis
			return acquired{err: err}
		}
	}
	hold, err := r.await(began)
	return acquired{hold: hold, err: err}
}

// await waits for a hold of our own.
func (r *run) await(began time.Time) (*holdfast.Hold, error) {
	if semaphore, ok := r.lock.(*holdfast.PermitSemaphore); ok {
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
	return r.lock.Lock(r.waiting, options...)
}

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
	return err
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
