package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/reports"
	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/bench/workloads/scale"
	"github.com/holdfast-go/holdfast/bench/workloads/scripts"
)

// A job is one run of the program, with a server.
type job struct {
	options

	addr     string
	stdout   io.Writer // for people
	progress io.Writer
	facts    reports.Facts
	jvm      contenders.JVMProgram // if Redisson takes part
}

// run runs what the options ask for, with a line between.
func (j *job) run(ctx context.Context) (err error) {
	if j.redisson {
		if j.jvm, err = contenders.PrepareJVM(ctx); err != nil {
			return err
		}
	}
	if j.facts, err = reports.LookUp(ctx, j.addr); err != nil {
		return err
	}
	if j.redisson {
		j.facts = append(j.facts, "org.redisson:redisson "+j.jvm.Redisson+", "+j.jvm.Java)
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
	entries, err := p.Run(ctx)
	if err != nil {
		return err
	}
	r := reports.Comparison{Plan: p, Entries: entries}
	if err := r.Write(j.stdout); err != nil {
		return err
	}
	if j.report != "" {
		_, waits, err := j.measureHeld(ctx, j.setup(), 0)
		if err != nil {
			return err
		}
		if err := reports.WritePage(j.report, j.facts, r, waits, j.args); err != nil {
			return err
		}
	}
	if names := r.Overlapped(); names != nil {
		return fmt.Errorf("two were inside one lock: %s", strings.Join(names, "; "))
	}
	return nil
}

// plan makes the plan that the options ask for.
func (j *job) plan() (workloads.Plan, error) {
	p := workloads.Plan{
		Setup: j.setup(), Rounds: j.rounds, Window: j.duration, Limit: j.timeout, JVMWarm: j.jvmWarm,
		Contenders: j.chosen(j.contenders()), Workloads: j.chosenWorkloads(), Progress: j.progress,
	}
	if len(p.Contenders) == 0 || len(p.Workloads) == 0 {
		return p, errNothing
	}
	return p, nil
}

var errNothing = errors.New("nothing is left to run: see --only and --workloads")

func (j *job) setup() contenders.Setup {
	return contenders.Setup{Addrs: []string{j.addr}, Pool: j.pool, Lease: j.lease}
}

// heldSetup is that of all others, but in a smoke run the lease is short, since what is held is
// measured for as long as that.
func (j *job) heldSetup() contenders.Setup {
	s := j.setup()
	s.Lease = j.heldLease
	return s
}

// contenders are all that can take part.
func (j *job) contenders() []contenders.Contender {
	all := contenders.All()
	if j.redisson {
		all = append(all, contenders.RedissonInJVM(j.jvm, j.progress))
	}
	return all
}

// chosen are those that --only names.
func (j *job) chosen(all []contenders.Contender) (some []contenders.Contender) {
	for _, c := range all {
		if j.only == "" || slices.ContainsFunc(strings.Split(j.only, ","), func(word string) bool {
			return strings.Contains(c.Full(), word)
		}) {
			some = append(some, c)
		}
	}
	return some
}

// chosenWorkloads are those that the options name; without any, all that fit into the
// run.
func (j *job) chosenWorkloads() (some []workloads.Workload) {
	named := strings.Split(j.workloads, ",")
	for _, w := range workloads.All() {
		if j.workloads == "" && (!j.quick || !w.Full) || slices.Contains(named, w.ID) {
			some = append(some, w)
		}
	}
	return some
}

// check is the mode --check.
func (j *job) check(ctx context.Context) error {
	p := workloads.Plan{Setup: j.setup(), Limit: j.timeout, JVMWarm: j.jvmWarm, Contenders: j.contenders(), Progress: j.progress}
	return reports.Check(ctx, p, j.stdout)
}

// held is the mode --held.
func (j *job) held(ctx context.Context) error {
	s := j.heldSetup()
	if len(j.chosen(contenders.Renewing())) == 0 {
		return errNothing
	}
	holds, waits, err := j.measureHeld(ctx, s, j.holds)
	if err != nil {
		return err
	}
	return reports.WriteHeld(j.stdout, s.Lease, holds, waits)
}

// measureHeld measures up to so many holds, if there are any, and the waiters.
func (j *job) measureHeld(ctx context.Context, s contenders.Setup, most int) (holds []held.Holds, waits []held.Waits, err error) {
	some := j.chosen(contenders.Renewing())
	err = places.OnStage(func(stage *places.Stage) error {
		r := held.New(stage, s, 3*j.timeout, j.progress)
		for _, c := range some {
			if most == 0 {
				break
			}
			more, err := r.Held(ctx, c, most, s.Lease)
			if err := j.bear(c, err); err != nil {
				return err
			}
			holds = append(holds, more...)
		}
		for _, c := range some {
			more, err := r.Waiting(ctx, c, j.waiters)
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
func (j *job) bear(c contenders.Contender, failed error) error {
	if failed == nil || c.Ours {
		return failed
	}
	_, err := fmt.Fprintf(j.progress, "%s has not gone on: %v\n", c.Full(), failed)
	return err
}

// compareScripts is the mode --scripts.
func (j *job) compareScripts(ctx context.Context) error {
	figures, barest, err := scripts.Measure(ctx, j.addr, j.lease, j.turns, j.progress)
	if err != nil {
		return err
	}
	return reports.WriteScripts(j.stdout, j.turns, figures, barest)
}

// scale is the mode --scale.
func (j *job) scale(ctx context.Context) error {
	ours := j.chosen(contenders.Ours())
	if len(ours) == 0 {
		return errNothing
	}
	r := scale.Run{
		Setup: j.heldSetup(), Contenders: ours, Rounds: j.rounds, Window: j.duration, Limit: j.timeout, Holds: j.holds, Quick: j.quick, Progress: j.progress,
	}
	report, failed := r.Measure(ctx)
	return errors.Join(failed, reports.WriteScale(j.stdout, report)) // what has been measured before is worth having
}
