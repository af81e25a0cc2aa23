package workloads

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
)

// Plan is what to run.
type Plan struct {
	Setup      contenders.Setup
	Contenders []contenders.Contender
	Workloads  []Workload
	Rounds     int
	Window     time.Duration // of each cell
	Limit      time.Duration // of each pair
	// JVMWarm is how long Redisson runs before it is measured, with many threads, and
	// again with one: long enough for a JVM to compile what is called often.
	JVMWarm  time.Duration
	Progress io.Writer
}

// Entry is all rounds of one contender under one workload.
type Entry struct {
	Contender contenders.Contender
	Workload  Workload
	Rounds    []Figures

	index int // of the contender's session
}

// Runner runs a plan. All contenders stay connected throughout.
type Runner struct {
	Plan
	ID       string // in front of every key of this run
	server   *places.Place
	sessions []*contenders.Session
	turns    int // so far
}

// On connects all contenders of a plan, calls f, and closes them.
func (p Plan) On(ctx context.Context, f func(*Runner) error) error {
	return places.OnStage(func(stage *places.Stage) (err error) {
		r := &Runner{
			Plan: p, ID: NewID(), server: places.Open(stage, "the server", p.Setup.Addrs...), sessions: make([]*contenders.Session, len(p.Contenders)),
		}
		defer func() { err = errors.Join(err, r.close()) }()
		for i := range r.Contenders {
			if err := r.connect(ctx, i); err != nil {
				return err
			}
		}
		return f(r)
	})
}

// NewID is what stands in front of every key of a run.
func NewID() string { return "holdfast-bench:" + rand.Text()[:8] }

func (r *Runner) connect(ctx context.Context, i int) error {
	s, err := r.Contenders[i].Open(ctx, r.Setup)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Contenders[i].Full(), err)
	}
	r.sessions[i] = s
	if s.RunCell == nil {
		return nil
	}
	for _, n := range []int{64, 1} {
		c := Cell{Order: Order{Workload{Goroutines: n}, r.ID + ":warm", r.JVMWarm, 10 * time.Second}, Session: s}
		if f := c.Run(ctx); f.Error != "" {
			return errors.New(f.Error)
		}
	}
	return nil
}

func (r *Runner) close() error {
	var failed []error
	for i, s := range r.sessions {
		if s != nil {
			failed = append(failed, r.closeSession(i))
		}
	}
	return errors.Join(failed...)
}

// closeSession closes a session. One that does not end is left behind.
func (r *Runner) closeSession(i int) error {
	s := r.sessions[i]
	r.sessions[i] = nil
	return r.Contenders[i].CloseWithin(3*r.Limit, s)
}

// Run runs the plan, and returns an entry for each contender and workload.
func (p Plan) Run(ctx context.Context) (all []*Entry, err error) {
	err = p.On(ctx, func(r *Runner) error {
		for _, w := range r.Workloads {
			entries := r.EntriesOf(w)
			all = append(all, entries...)
			if err := r.WarmUp(ctx, entries); err != nil {
				return err
			}
			if err := r.Measure(ctx, entries, r.Rounds); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// EntriesOf returns an entry for each contender that takes part in the workload.
func (r *Runner) EntriesOf(w Workload) (entries []*Entry) {
	for i, c := range r.Contenders {
		if w.Suits(c) {
			entries = append(entries, &Entry{Contender: c, Workload: w, index: i})
		}
	}
	return entries
}

// WarmUp runs a round that does not count, in which connections are made and
// scripts loaded.
func (r *Runner) WarmUp(ctx context.Context, entries []*Entry) error {
	for _, e := range entries {
		if e.Workload.Processes > 0 && e.Contender.Client != contenders.InJVM {
			continue // its processes warm themselves up
		}
		if _, err := r.turn(ctx, e, r.Window/4, "warm"); err != nil {
			return err
		}
	}
	return nil
}

// Measure adds rounds to the entries, in turns.
func (r *Runner) Measure(ctx context.Context, entries []*Entry, rounds int) error {
	for round := range rounds {
		for _, e := range entries {
			if e.hopeless() {
				continue
			}
			f, err := r.turn(ctx, e, r.Window, fmt.Sprintf("%d/%d", round+1, rounds))
			if err != nil {
				return err
			}
			e.Rounds = append(e.Rounds, f)
		}
	}
	return nil
}

// hopeless reports whether a peer has completed nothing in its last round. It is not asked
// again: each time may take as long as a process is waited for.
func (e *Entry) hopeless() bool {
	n := len(e.Rounds)
	return n > 0 && !e.Rounds[n-1].Measured() && !e.Contender.Ours
}

// turn runs one cell. Its locks have names of their own, so whatever another one
// has left behind is not in its way.
func (r *Runner) turn(ctx context.Context, e *Entry, window time.Duration, which string) (Figures, error) {
	r.turns++
	c := Cell{
		Order: Order{e.Workload, fmt.Sprintf("%s:%d", r.ID, r.turns), window, r.Limit}, Session: r.sessions[e.index],
		contender: e.Contender.Full(), setup: r.Setup, server: r.server, progress: r.Progress,
	}
	runtime.GC() // so that nobody pays for the garbage of the one before
	f, err := r.metered(ctx, &c)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = r.report(which, e, f)
	}
	if err != nil || !f.StoodStill && f.Stuck == 0 {
		return f, err
	}
	// Whatever holds it up shall not be there in the next round.
	if err := r.closeSession(e.index); err != nil {
		if err := r.Say("    %v\n", err); err != nil {
			return f, err
		}
	}
	return f, r.connect(ctx, e.index)
}

// metered runs the cell, and says what its pairs have cost.
func (r *Runner) metered(ctx context.Context, c *Cell) (f Figures, err error) {
	if c.Processes > 0 && c.Session.RunCell == nil {
		return c.Run(ctx), nil // it looks itself what is spent, without what its processes need to start
	}
	before, err := r.server.Spent(ctx)
	if err != nil {
		return f, err
	}
	f = c.Run(ctx)
	after, err := r.server.Spent(ctx)
	if err != nil {
		return f, err
	}
	return f.spent(after.Since(before)), nil
}

func (r *Runner) report(which string, e *Entry, f Figures) error {
	remark := f.Remark()
	if remark != "" {
		remark = "  " + remark
	}
	return r.Say("%-5s %-24s %-22s %9.0f pairs/s%s\n", which, e.Workload.Title, e.Contender.Full(), f.PerSecond, remark)
}

// Say tells how far it is.
func (r *Runner) Say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.Progress, format, args...)
	return err
}
