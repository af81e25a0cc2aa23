//go:build unix

package runner

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
)

// outer is what the environment says of a run of the same name around this one. Anybody can set
// the environment, and the hold may be lost since, so it is believed only as far as Redis says the
// same.
func (r *run) outer() (*holdfast.Holder, error) {
	owner := os.Getenv(ownerVariable)
	if r.Kind == Permits {
		owner = os.Getenv(permitVariable)
	}
	if runner, err := strconv.Atoi(os.Getenv(runnerVariable)); err == nil && !inGroupOf(runner) {
		return nil, errLeftGroup
	}
	ctx, cancel := r.withinWait()
	defer cancel()
	state, err := r.whole.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range state.Holders {
		if h.Owner.String() == owner {
			return &h, nil
		}
	}
	return nil, errAlone
}

// There is no outer run, or it does not stop this one when it loses the lock.
var (
	errAlone     = errors.New("it does not hold that any more")
	errLeftGroup = errors.New("this one is not in the process group that it stops when the lock is lost")
)

// runUnder runs the command under the hold of an outer run, in our place: the outer run passes
// signals on to its group, which the command is in, and stops it when the hold is lost. It returns
// only if it cannot.
func (r *run) runUnder(outer *holdfast.Holder) *exit.Error {
	switch {
	case r.Kind == Write && outer.Mode == holdfast.ModeRead:
		return exit.Because(exit.Usage, "the run around this one holds the lock %q for reading, and does not let it go for a writer", r.Name)
	case r.Fenced && os.Getenv(tokenVariable) == "":
		return exit.Because(exit.Usage, "the run of %q around this one has no fencing token; --fenced is for the outer one", r.Name)
	case r.MaxRun > 0 || r.MinHold > 0:
		return exit.Because(exit.Usage, "there is a run of %q around this one, so --max-run and --min-hold are for that one", r.Name)
	}
	environment := r.withoutSecrets()
	for _, name := range ofLock {
		if value, found := os.LookupEnv(name); found {
			environment = append(environment, name+"="+value)
		}
	}
	nested := event{Event: "nested"}
	nested.Owner, nested.Permit = r.ownerOrPermit(outer.Owner)
	r.happened(nested)
	r.detailf("runs under the hold of the run of %q around this one, %s", r.Name, present.Who(outer.Who, outer.Owner.String()))
	r.teller.close()
	r.deafen() // from now on a signal does to us what it does to the command
	if s := r.ended(); s != nil {
		return endedBy(s)
	}
	err := execute(r.path, r.Command, func(path string, argv []string) error {
		return syscall.Exec(path, argv, environment) //nolint:gosec // what the user has said
	})
	return cannotRun(r.Command[0], err)
}

// ownerOrPermit is what stands in Redis for a holder: a permit's id, of a semaphore.
func (r *run) ownerOrPermit(holder holdfast.Owner) (owner, permit string) {
	if r.Kind == Permits {
		return "", holder.String()
	}
	return holder.String(), ""
}

// withinWait is a context for what comes before the wait for the lock, which has the same bound.
func (r *run) withinWait() (context.Context, context.CancelFunc) {
	if r.waits() {
		return context.WithTimeout(r.waiting, *r.Wait)
	}
	return context.WithCancel(r.waiting)
}
