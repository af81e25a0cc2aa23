package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// plan is what to run.
type plan struct {
	setup      setup
	contenders []contender
	workloads  []workload
	rounds     int
	window     time.Duration // of each cell
	limit      time.Duration // of each pair
	progress   io.Writer
}

// entry is all rounds of one contender under one workload.
type entry struct {
	contender contender
	workload  workload
	rounds    []figures
}

// runner runs a plan. All contenders stay connected throughout.
type runner struct {
	plan
	id       string // in front of every key of this run
	sessions []session
}

// run runs the plan, and returns an entry for each contender and workload.
func (p plan) run(ctx context.Context) (_ []entry, err error) {
	r := &runner{plan: p, id: "holdfast-bench:" + rand.Text()[:8]}
	defer func() { err = errors.Join(err, r.disconnect()) }()
	if err := r.connect(); err != nil {
		return nil, err
	}
	var entries []entry
	for _, w := range r.workloads {
		more, err := r.turns(ctx, w)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

func (r *runner) connect() error {
	r.sessions = make([]session, len(r.contenders))
	for i := range r.contenders {
		if err := r.open(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) open(i int) error {
	s, err := r.contenders[i].open(r.setup)
	if err != nil {
		return fmt.Errorf("%s: %w", r.contenders[i].full(), err)
	}
	r.sessions[i] = s
	return nil
}

func (r *runner) disconnect() error {
	var failed []error
	for i, s := range r.sessions {
		if s != nil {
			failed = append(failed, r.closeSession(i))
		}
	}
	return errors.Join(failed...)
}

// closeSession closes a session. One that does not end is left behind.
func (r *runner) closeSession(i int) error {
	done := make(chan error, 1)
	s := r.sessions[i]
	r.sessions[i] = nil
	go func() { done <- s.close() }()
	timeout := time.NewTimer(3 * r.limit)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		return fmt.Errorf("%s: close has not returned for %v", r.contenders[i].full(), 3*r.limit)
	}
}

// turns runs one workload: a round that does not count, in which connections are
// made and scripts loaded, and then those that do.
func (r *runner) turns(ctx context.Context, w workload) ([]entry, error) {
	var entries []entry
	for _, c := range r.contenders {
		if c.suits(w) {
			entries = append(entries, entry{contender: c, workload: w})
		}
	}
	for round := range r.rounds + 1 {
		next := 0
		for i, c := range r.contenders {
			if !c.suits(w) {
				continue
			}
			f, err := r.turn(ctx, i, w, round)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				entries[next].rounds = append(entries[next].rounds, f)
			}
			next++
		}
	}
	return entries, nil
}

// turn runs one cell. Its locks have names of their own, so whatever another one
// has left behind is not in its way.
func (r *runner) turn(ctx context.Context, i int, w workload, round int) (figures, error) {
	window := r.window
	if round == 0 {
		window /= 4
	}
	c := cell{
		workload: w, session: r.sessions[i], window: window, limit: r.limit,
		prefix: fmt.Sprintf("%s:%s:%d:%d", r.id, w.id, round, i),
	}
	runtime.GC() // so that nobody pays for the garbage of the one before
	f := c.run(ctx)
	if err := ctx.Err(); err != nil {
		return f, err
	}
	if err := r.report(i, w, round, f); err != nil {
		return f, err
	}
	if !f.StoodStill && f.Stuck == 0 {
		return f, nil
	}
	// Whatever holds it up shall not be there in the next round.
	if err := r.closeSession(i); err != nil {
		if err := r.say("    %v\n", err); err != nil {
			return f, err
		}
	}
	return f, r.open(i)
}

func (r *runner) report(i int, w workload, round int, f figures) error {
	what := fmt.Sprintf("%d/%d", round, r.rounds)
	if round == 0 {
		what = "warm"
	}
	remark := f.remark()
	if remark != "" {
		remark = "  " + remark
	}
	return r.say("%-5s %-17s %-24s %9.0f pairs/s%s\n", what, w.title, r.contenders[i].full(), f.PerSecond, remark)
}

func (r *runner) say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.progress, format, args...)
	return err
}
