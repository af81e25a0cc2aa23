//go:build unix

package runner

import (
	"context"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// outer returns the holder of the run around this one, if what the environment says of it is proven; otherwise an [unprovenError], or why
// Redis cannot be asked.
func (r *run) outer() (*holdfast.Holder, error) {
	if err := proveRunner(r.claim.runner, r.Name); err != nil {
		return nil, err
	}
	ctx, cancel := r.withinWait()
	defer cancel()
	state, err := r.whole.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	holder := r.claim.holds(state, r.Kind == Permits)
	switch {
	case holder == nil, protocol.Kept(holder.Owner.String()):
		return nil, errNotHeld
	case !protocol.Ours(r.claim.owner), !holder.Who.IsZero() && (holder.Who.PID != r.claim.runner || holder.Who.Host != hostName()):
		return nil, errOtherHold
	case r.Fenced && r.claim.token != 0 && r.claim.token != state.Token:
		return nil, exit.Because(exit.Usage, "%s is not the fencing token of the run of %q around this one", tokenVariable, r.Name)
	}
	return holder, nil
}

// hostName is what our runs say of their host.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return presence.Printable(host)
}

// runUnder runs the command under the hold of an outer run, in our place: the outer run passes
// signals on to its group, which the command is in, and stops it when the hold is lost. It returns
// only if it cannot.
func (r *run) runUnder(outer *holdfast.Holder) *exit.Error {
	switch {
	case r.Kind == Write && outer.Mode == holdfast.ModeRead:
		return exit.Because(exit.Usage, "the run around this one holds the lock %q for reading, and does not let it go for a writer", r.Name)
	case r.Fenced && r.claim.token == 0:
		return exit.Because(exit.Usage, "the run of %q around this one has no fencing token; --fenced is for the outer one", r.Name)
	case r.MaxRun > 0 || r.MinHold > 0:
		return exit.Because(exit.Usage, "there is a run of %q around this one, so --max-run and --min-hold are for that one", r.Name)
	}
	environment := append(r.withoutSecrets(), r.claim.environment()...)
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
