//go:build unix

package runner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// The environment variables by which a command knows its lock.
const (
	lockVariable  = "HOLDFAST_LOCK"
	ownerVariable = "HOLDFAST_OWNER"
	tokenVariable = "HOLDFAST_TOKEN"
	// A semaphore's permit has an id of its own in Redis, in place of an owner.
	permitVariable = "HOLDFAST_PERMIT"
	// The process that stops the command's group when the lock is lost.
	runnerVariable = "HOLDFAST_RUNNER"
)

// always are the variables that every command has, and ofLock are all of them.
var (
	always = []string{lockVariable, ownerVariable, runnerVariable}
	ofLock = []string{lockVariable, ownerVariable, tokenVariable, permitVariable, runnerVariable}
)

// claim is what the environment says of a run around this one; the zero claim: nothing. Anybody can set the environment: see doc.go for
// what has to be proven.
type claim struct {
	lock   string
	owner  string
	permit string // empty: the run is no semaphore's
	token  int64  // 0: the run is not fenced
	runner int
}

// claimed reads the claim, with getenv in the place of [os.Getenv]. Without the name of a lock there is none. It refuses a half of one, and
// values that no run has set.
func claimed(getenv func(name string) string) (c claim, err error) {
	values := map[string]string{}
	var set, missing []string
	for _, name := range ofLock {
		values[name] = getenv(name)
		switch {
		case values[name] != "":
			set = append(set, name)
		case slices.Contains(always, name):
			missing = append(missing, name)
		}
	}
	wrong := func(is string) (claim, error) {
		return claim{}, fmt.Errorf("the environment claims a run around this one, incompletely or wrongly: %s; if there is such a run, pass on every variable that it has set, "+
			"and if there is none, start this one with env -u %s", is, strings.Join(set, " -u "))
	}
	switch {
	case values[lockVariable] == "":
		return claim{}, nil // the others are about no lock
	case len(missing) > 0:
		return wrong(strings.Join(set, ", ") + " without " + strings.Join(missing, ", "))
	}
	runner, isProcess := positive(values[runnerVariable], math.MaxInt32)
	token, isToken := positive(values[tokenVariable], 1<<53-1)
	c = claim{values[lockVariable], values[ownerVariable], values[permitVariable], token, int(runner)}
	switch {
	case !isProcess:
		return wrong(runnerVariable + " is no process number")
	case !isOwner(c.owner):
		return wrong(ownerVariable + " is no owner")
	case c.permit != "" && (!isOwner(c.permit) || strings.Contains(c.permit, ":")):
		return wrong(permitVariable + " is no id of a permit")
	case values[tokenVariable] != "" && !isToken:
		return wrong(tokenVariable + " is no fencing token")
	}
	return c, nil
}

// positive reads a number from 1 to most, as a run writes it.
func positive(text string, most int64) (n int64, ok bool) {
	n, ok = protocol.Integer(text)
	return n, ok && 1 <= n && n <= most
}

// isOwner reports whether a text is an owner, or the id of a permit.
func isOwner(text string) bool {
	_, err := holdfast.ParseOwner(text)
	return err == nil
}

// environment returns the variables of the claim.
func (c claim) environment() []string {
	all := []string{lockVariable + "=" + c.lock, ownerVariable + "=" + c.owner, runnerVariable + "=" + strconv.Itoa(c.runner)}
	if c.permit != "" {
		all = append(all, permitVariable+"="+c.permit)
	}
	if c.token != 0 {
		all = append(all, tokenVariable+"="+strconv.FormatInt(c.token, 10))
	}
	return all
}

// holds returns the holder that the claim names, of a lock in Redis; nil if it does not hold it.
func (c claim) holds(state holdfast.State, permits bool) *holdfast.Holder {
	owner := c.owner
	if permits {
		owner = c.permit
	}
	for _, h := range state.Holders {
		if owner != "" && h.Owner.String() == owner {
			return &h
		}
	}
	return nil
}

// isRunOf reports whether a command line is of a run of a lock of this name.
func isRunOf(line []string, name string) bool {
	at := slices.Index(line, "run")
	if at < 1 {
		return false
	}
	ours := line[at+1:]
	if dashes := slices.Index(ours, "--"); dashes >= 0 {
		if slices.Equal(ours[dashes+1:min(dashes+3, len(ours))], []string{name, "--"}) {
			return true
		}
		ours = ours[:dashes]
	}
	return !strings.HasPrefix(name, "-") && slices.Contains(ours, name)
}

// unprovenError says why there is no run around this one that stops it when it loses the lock, whatever the environment says.
type unprovenError string

func (e unprovenError) Error() string { return string(e) }

// The reasons.
const (
	errNotHeld   = unprovenError("it does not hold that any more")
	errLeftGroup = unprovenError("this one is not in the process group that it stops when the lock is lost")
	errNoRun     = unprovenError(runnerVariable + " is no run of that name")
	errOtherHold = unprovenError("the hold is another process's")
)

// isUnproven reports whether an error is an unprovenError.
func isUnproven(err error) bool {
	var reason unprovenError
	return errors.As(err, &reason)
}
