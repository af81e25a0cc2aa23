package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// A job is one run of the program, with a server.
type job struct {
	options

	addr     string
	stdout   io.Writer // for people
	progress io.Writer
	facts    facts
	jvm      jvmProgram // if Redisson takes part
}

// run runs what the options ask for, with a line between.
func (j *job) run(ctx context.Context) (err error) {
	if j.redisson {
		if j.jvm, err = prepareJVM(ctx); err != nil {
			return err
		}
	}
	if j.facts, err = lookUp(ctx, j.addr); err != nil {
		return err
	}
	if j.redisson {
		j.facts = append(j.facts, "org.redisson:redisson "+j.jvm.redisson+", "+j.jvm.java)
	}
	if _, err := fmt.Fprintln(j.stdout, j.facts); err != nil {
		return err
	}
	for i, m := range j.modes {
		if i > 0 {
			if _, err := fmt.Fprintln(j.stdout); err != nil {
				return err
			}
		}
		if err := m.run(j, ctx); err != nil {
			return err
		}
	}
	return nil
}

// compare is what runs when no other mode is asked for.
func (j *job) compare(ctx context.Context) error {
	p, err := j.plan()
	if err != nil {
		return err
	}
	entries, err := p.run(ctx)
	if err != nil {
		return err
	}
	r := report{plan: p, entries: entries}
	if err := r.write(j.stdout); err != nil {
		return err
	}
	if j.report != "" {
		_, waits, err := j.measureHeld(ctx, j.setup(), 0)
		if err != nil {
			return err
		}
		if err := newPage(j.report, j.facts, r, waits, j.args).write(); err != nil {
			return err
		}
	}
	if names := r.overlapped(); names != nil {
		return fmt.Errorf("two were inside one lock: %s", strings.Join(names, "; "))
	}
	return nil
}

// plan makes the plan that the options ask for.
func (j *job) plan() (plan, error) {
	p := plan{
		setup: j.setup(), rounds: j.rounds, window: j.duration, limit: j.timeout, jvmWarm: j.jvmWarm,
		contenders: j.chosen(j.contenders()), workloads: j.chosenWorkloads(), progress: j.progress,
	}
	if len(p.contenders) == 0 || len(p.workloads) == 0 {
		return p, errNothing
	}
	return p, nil
}

var errNothing = errors.New("nothing is left to run: see --only and --workloads")

func (j *job) setup() setup { return setup{Addrs: []string{j.addr}, Pool: j.pool, Lease: j.lease} }

// heldSetup is that of all others, but in a smoke run the lease is short, since what is held is
// measured for as long as that.
func (j *job) heldSetup() setup {
	s := j.setup()
	s.Lease = j.heldLease
	return s
}

// contenders are all that can take part.
func (j *job) contenders() []contender {
	all := contenders()
	if j.redisson {
		all = append(all, redissonInJVM(j.jvm, j.progress))
	}
	return all
}

// chosen are those that --only names.
func (j *job) chosen(all []contender) (some []contender) {
	for _, c := range all {
		if j.only == "" || slices.ContainsFunc(strings.Split(j.only, ","), func(word string) bool {
			return strings.Contains(c.full(), word)
		}) {
			some = append(some, c)
		}
	}
	return some
}

// chosenWorkloads are those that the options name; without any, all that fit into the
// run.
func (j *job) chosenWorkloads() (some []workload) {
	named := strings.Split(j.workloads, ",")
	for _, w := range workloads() {
		if j.workloads == "" && (!j.quick || !w.Full) || slices.Contains(named, w.ID) {
			some = append(some, w)
		}
	}
	return some
}

// check is the mode --check.
func (j *job) check(ctx context.Context) error {
	p := plan{setup: j.setup(), limit: j.timeout, jvmWarm: j.jvmWarm, contenders: j.contenders(), progress: j.progress}
	return check(ctx, p, j.stdout)
}

// held is the mode --held.
func (j *job) held(ctx context.Context) error {
	s := j.heldSetup()
	if len(j.chosen(renewing())) == 0 {
		return errNothing
	}
	holds, waits, err := j.measureHeld(ctx, s, j.holds)
	if err != nil {
		return err
	}
	return writeHeld(j.stdout, s.Lease, holds, waits)
}

// measureHeld measures up to so many holds, if there are any, and the waiters.
func (j *job) measureHeld(ctx context.Context, s setup, most int) (holds []heldFigures, waits []waitFigures, err error) {
	some := j.chosen(renewing())
	err = onStage(func(t testing.TB) error {
		r := newHeldRun(t, s, 3*j.timeout, j.progress)
		for _, c := range some {
			if most == 0 {
				break
			}
			more, err := r.held(ctx, c, most, s.Lease)
			if err := j.bear(c, err); err != nil {
				return err
			}
			holds = append(holds, more...)
		}
		for _, c := range some {
			more, err := r.waiting(ctx, c, j.waiters)
			if err := j.bear(c, err); err != nil {
				return err
			}
			waits = append(waits, more...)
		}
		return ctx.Err()
	})
	return holds, waits, err
}

// bear says why a peer has not gone on, and returns the error of one of ours.
func (j *job) bear(c contender, failed error) error {
	if failed == nil || c.ours {
		return failed
	}
	_, err := fmt.Fprintf(j.progress, "%s has not gone on: %v\n", c.full(), failed)
	return err
}

// compareScripts is the mode --scripts.
func (j *job) compareScripts(ctx context.Context) error {
	figures, barest, err := measureScripts(ctx, j.addr, j.lease, j.turns, j.progress)
	if err != nil {
		return err
	}
	return writeScripts(j.stdout, j.turns, figures, barest)
}

// scale is the mode --scale.
func (j *job) scale(ctx context.Context) error {
	ours := j.chosen(ours())
	if len(ours) == 0 {
		return errNothing
	}
	r := scaleRun{
		setup: j.heldSetup(), contenders: ours, rounds: j.rounds, window: j.duration, limit: j.timeout, holds: j.holds, quick: j.quick, progress: j.progress,
	}
	report, failed := r.measure(ctx)
	return errors.Join(failed, writeScale(j.stdout, report)) // what has been measured before is worth having
}
