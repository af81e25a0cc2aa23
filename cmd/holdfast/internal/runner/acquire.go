//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// find looks a command up as a shell does, before anybody waits for the lock.
func find(command string) (string, *exit.Error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return "", cannotRun(command, err)
	}
	return path, nil
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
