package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A job is one run of the program, with a server.
type job struct {
	options

	addr     string
	stdout   io.Writer // for people
	progress io.Writer
	records  records
	facts    facts
	jvm      jvmProgram // if Redisson takes part
}

// run runs what the options ask for.
func (j *job) run(ctx context.Context) (err error) {
	if j.redisson {
		if j.jvm, err = prepareJVM(ctx); err != nil {
			return err
		}
	}
	f, err := lookUp(ctx, j.addr)
	if err != nil {
		return err
	}
	if j.redisson {
		f = f.with("org.redisson:redisson", j.jvm.redisson+", "+j.jvm.java)
	}
	j.facts = f
	if err := j.records.write(struct {
		Kind string `json:"kind"`
		facts
	}{"run", f}); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(j.stdout, f); err != nil {
		return err
	}
	return j.all(ctx)
}

// compare is what runs when no other mode is asked for.
func (j *job) compare(ctx context.Context) error {
	r, err := j.measure(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(r.write(j.stdout), j.records.writeEntries(r.entries)); err != nil {
		return err
	}
	if j.report != "" {
		if err := j.writePage(ctx, r); err != nil {
			return err
		}
	}
	if names := r.overlapped(); names != nil {
		return fmt.Errorf("two were inside one lock: %s", strings.Join(names, "; "))
	}
	return nil
}

func (j *job) measure(ctx context.Context) (r report, err error) {
	if r.plan, err = j.plan(); err != nil {
		return r, err
	}
	r.entries, err = r.plan.run(ctx)
	return r, err
}

// plan makes the plan that the options ask for.
func (j *job) plan() (plan, error) {
	p := plan{
		setup: j.setup(), rounds: j.rounds, window: j.duration, limit: j.timeout,
		contenders: j.chosen(j.contenders()), workloads: j.chosenWorkloads(), progress: j.progress,
	}
	if len(p.contenders) == 0 || len(p.workloads) == 0 {
		return p, errNothing
	}
	return p, nil
}

var errNothing = errors.New("nothing is left to run: see --only and --workloads")

// jvmWarm is long enough for a JVM to compile what is called often.
const jvmWarm = 5 * time.Second

func (j *job) setup() setup {
	s := setup{addr: j.addr, pool: j.pool, lease: j.lease, jvmWarm: jvmWarm}
	if j.quick {
		s.jvmWarm = j.duration
	}
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
