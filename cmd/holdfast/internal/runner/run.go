//go:build unix

package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// closeLimit bounds the cleaning up behind the last answer, silentLimit that
// behind a Redis that has not answered: the wait is over, and what may be left
// there ends with its lease.
const (
	closeLimit  = time.Second
	silentLimit = 200 * time.Millisecond
)

// run is one call of [Run].
type run struct {
	Config

	claim   claim
	client  *holdfast.Client
	lock    holdfast.Inspector
	whole   holdfast.Inspector // what says who holds it
	signals <-chan os.Signal   // that end us
	resized <-chan os.Signal
	deafen  func() // gives signals the effects that they had before
	path    string // of the command
	hold    *holdfast.Hold
	since   time.Time                        // when the lock was acquired
	say     func(format string, args ...any) // Config.Log, at once
	teller  *teller
	mute    bool // the status cannot be written; only the teller's goroutine looks at it

	interrupted bool // Ctrl-C has ended the command

	// waiting is what Lock is called with, so the hold's context comes from it:
	// giveUp is called while waiting, or when all is over.
	waiting context.Context // lives as long as the run
	giveUp  context.CancelFunc
}

// Run waits for the lock, runs the command and gives the lock back. It returns
// nil if the command ended with 0, and an [exit.Error] otherwise.
func Run(cfg Config, d driver.Driver) error {
	runtime.LockOSThread() // see doc.go
	defer runtime.UnlockOSThread()
	if err := cfg.check(); err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	claim, err := claimed(os.Getenv)
	if err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	client, err := holdfast.New(d, append(cfg.Client, holdfast.WithLease(cfg.Lease), holdfast.WithMargin(cfg.margin()),
		holdfast.WithIdentity(holdfast.Identity{Program: identityOf(cfg.Command[0])}))...)
	if err != nil {
		return exit.Of(err)
	}
	signals, resized, stop := listen()
	defer stop()
	r := &run{Config: cfg, claim: claim, client: client, signals: signals, resized: resized, deafen: stop, say: cfg.Log, teller: newTeller()}
	r.lock, r.whole = r.locks(cfg.Fenced)
	defer r.teller.close()
	r.Log = func(format string, args ...any) { r.teller.tell(func() { r.say(format, args...) }) }
	r.waiting, r.giveUp = context.WithCancel(context.Background())
	defer r.giveUp()
	failure := r.all()
	r.close(failure)
	r.happened(end(failure))
	if r.interrupted && failure != nil && failure.Err == nil {
		r.teller.close()
		dieInterrupted()
	}
	if failure == nil {
		return nil
	}
	return failure
}

// identityOf is what others are told that we are: "holdfast run report.sh".
func identityOf(command string) string {
	name := []rune(new(visible.Reader).Map(filepath.Base(command), func(string) string { return "?" }))
	return "holdfast run " + string(name[:min(len(name), 25)])
}

// end is the last line of the status.
func end(failure *exit.Error) event {
	code := exit.OK
	e := event{Event: "done", ExitCode: &code}
	if failure != nil {
		code = failure.Code
		if failure.Err != nil {
			e.Error = failure.Err.Error()
		}
	}
	return e
}

func (r *run) close(failure *exit.Error) {
	limit := closeLimit
	if failure != nil && failure.Code == exit.Unavailable {
		limit = silentLimit
	}
	connect.CloseWithin(limit, r.client) // what it has not given back ends with its lease
}

// all does everything between the start and the end of the client.
func (r *run) all() *exit.Error {
	var failure *exit.Error
	if r.path, failure = find(r.Command[0]); failure != nil {
		return failure
	}
	if failure := r.acquire(); failure != nil {
		return failure
	}
	result := r.protect()
	if result.started && !result.lost && !r.keeps() {
		if failure := r.holdOn(); failure != nil {
			result.failure = failure
		}
	}
	return r.release(result)
}

// holdOn keeps the lock until its shortest hold is over. A signal, or the loss
// of the lock, ends that.
func (r *run) holdOn() *exit.Error {
	rest := time.NewTimer(time.Until(r.since.Add(r.MinHold)))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-r.hold.Context().Done():
	case s := <-r.signals:
		return endedBy(s)
	}
	return nil
}

// release gives the lock back, and decides the exit code.
func (r *run) release(result result) *exit.Error {
	err := r.hold.Unlock()
	switch {
	case errors.Is(err, holdfast.ErrLost) && result.started:
		code := exit.Lost
		if result.stillRuns {
			code = exit.StillRuns
		}
		return exit.Because(code, "the %s was lost (%v); %s", r.what(), r.reason(err), result.end)
	case err != nil && !errors.Is(err, holdfast.ErrLost):
		r.sayNotGivenBack(err)
	case err == nil:
		r.detailf("gave the %s back after %v", r.what(), time.Since(r.since).Round(time.Millisecond))
	}
	return result.failure
}
