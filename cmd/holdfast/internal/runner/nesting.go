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
		return claim{}, fmt.Errorf("the environment has half of a run around this one: %s; if there is such a run, pass on all that it has set, "+
			"and if there is none, start this one with env -u %s", is, strings.Join(set, " -u "))
	}
	switch {
	case values[lockVariable] == "":
		return claim{}, nil // the others are about no lock
	case len(missing) > 0:
		return wrong(strings.Join(set, ", ") + " without " + strings.Join(missing, ", "))
	}
	c = claim{lock: values[lockVariable], owner: values[ownerVariable], permit: values[permitVariable]}
	if c.runner, err = strconv.Atoi(values[runnerVariable]); err != nil || c.runner < 1 || c.runner > math.MaxInt32 || strconv.Itoa(c.runner) != values[runnerVariable] {
		return wrong(runnerVariable + " is no process number")
	}
	if _, err := holdfast.ParseOwner(c.owner); err != nil {
		return wrong(ownerVariable + " is no owner")
	}
	if _, err := holdfast.ParseOwner(c.permit); c.permit != "" && (err != nil || strings.Contains(c.permit, ":")) {
		return wrong(permitVariable + " is no id of a permit")
	}
	if text := values[tokenVariable]; text != "" {
		if c.token, err = strconv.ParseInt(text, 10, 64); err != nil || c.token < 1 || c.token >= 1<<53 || strconv.FormatInt(c.token, 10) != text {
			return wrong(tokenVariable + " is no fencing token")
		}
	}
	return c, nil
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
