package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
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
	// jvmWarm is how long Redisson runs before it is measured, with many threads, and
	// again with one: long enough for a JVM to compile what is called often.
	jvmWarm  time.Duration
	progress io.Writer
}

// entry is all rounds of one contender under one workload.
type entry struct {
	contender contender
	workload  workload
	rounds    []figures
	sent      float64 // commands of a pair, without those that scripts call; 0: not counted

	index int // of the contender's session
}

// runner runs a plan. All contenders stay connected throughout.
type runner struct {
	plan
	id       string // in front of every key of this run
	server   *place
	sessions []session
	turns    int // so far
}

// on connects all contenders of a plan, calls f, and closes them.
func (p plan) on(ctx context.Context, f func(*runner) error) error {
	return onStage(func(t testing.TB) (err error) {
		r := &runner{
			plan: p, id: newID(), server: openPlace(t, "the server", p.setup.Addrs...), sessions: make([]session, len(p.contenders)),
		}
		defer func() { err = errors.Join(err, r.close()) }()
		for i := range r.contenders {
			if err := r.connect(ctx, i); err != nil {
				return err
			}
		}
		return f(r)
	})
}

// newID is what stands in front of every key of a run.
func newID() string { return "holdfast-bench:" + rand.Text()[:8] }

func (r *runner) connect(ctx context.Context, i int) error {
	s, err := r.contenders[i].open(ctx, r.setup)
	if err != nil {
		return fmt.Errorf("%s: %w", r.contenders[i].full(), err)
	}
	r.sessions[i] = s
	if _, elsewhere := s.(cellRunner); !elsewhere {
		return nil
	}
	for _, n := range []int{64, 1} {
		c := cell{order: order{workload{Goroutines: n}, r.id + ":warm", r.jvmWarm, 10 * time.Second}, session: s}
		if f := c.run(ctx); f.Error != "" {
			return errors.New(f.Error)
		}
	}
	return nil
}

func (r *runner) close() error {
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
	s := r.sessions[i]
	r.sessions[i] = nil
	return closeWithin(3*r.limit, r.contenders[i], s)
}

// run runs the plan, and returns an entry for each contender and workload.
func (p plan) run(ctx context.Context) (all []*entry, err error) {
	err = p.on(ctx, func(r *runner) error {
		for _, w := range r.workloads {
			entries := r.entriesOf(w)
			all = append(all, entries...)
			if err := r.warmUp(ctx, entries); err != nil {
				return err
			}
			if err := r.countCommands(ctx, entries); err != nil {
				return err
			}
			if err := r.measure(ctx, entries, r.rounds); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// entriesOf returns an entry for each contender that takes part in the workload.
func (r *runner) entriesOf(w workload) (entries []*entry) {
	for i, c := range r.contenders {
		if w.suits(c) {
			entries = append(entries, &entry{contender: c, workload: w, index: i})
		}
	}
	return entries
}

// warmUp runs a round that does not count, in which connections are made and
// scripts loaded.
func (r *runner) warmUp(ctx context.Context, entries []*entry) error {
	for _, e := range entries {
		if e.workload.Processes > 0 && e.contender.client != inJVM {
			continue // its processes warm themselves up
		}
		if _, err := r.turn(ctx, e, r.window/4, "warm"); err != nil {
			return err
		}
	}
	return nil
}

// The turn in which commands are counted is bounded: MONITOR slows the server down.
// With many goroutines, an attempt would take longer than the 20 ms after which one of
// the libraries sends the next.
const (
	countWindow     = 50 * time.Millisecond
	countGoroutines = 16 // unless they share the lock
)

// countCommands runs a round in which commands are counted, and nothing else.
func (r *runner) countCommands(ctx context.Context, entries []*entry) error {
	for _, e := range entries {
		if e.workload.Processes > 0 {
			continue // nobody has a turn of the usual length there, and MONITOR would be the load
		}
		m, err := startMonitor(ctx, r.setup.Addrs[0], countWindow+10*r.limit)
		if err != nil {
			return err
		}
		counted := *e
		if !e.workload.Shared {
			counted.workload.Goroutines = min(countGoroutines, e.workload.Goroutines)
		}
		f, failed := r.turn(ctx, &counted, min(countWindow, r.window), "count")
		commands, err := m.finish(ctx, r.server.nodes[0])
		if err := errors.Join(failed, err); err != nil {
			return err
		}
		e.sent = float64(commands) / float64(max(1, f.Completed))
	}
	return nil
}

// measure adds rounds to the entries, in turns.
func (r *runner) measure(ctx context.Context, entries []*entry, rounds int) error {
	for round := range rounds {
		for _, e := range entries {
			if e.hopeless() {
				continue
			}
			f, err := r.turn(ctx, e, r.window, fmt.Sprintf("%d/%d", round+1, rounds))
			if err != nil {
				return err
			}
			e.rounds = append(e.rounds, f)
		}
	}
	return nil
}

// hopeless reports whether a peer has completed nothing in its last round. It is not asked
// again: each time may take as long as a process is waited for.
func (e *entry) hopeless() bool {
	n := len(e.rounds)
	return n > 0 && !e.rounds[n-1].measured() && !e.contender.ours
}

// turn runs one cell. Its locks have names of their own, so whatever another one
// has left behind is not in its way.
func (r *runner) turn(ctx context.Context, e *entry, window time.Duration, which string) (figures, error) {
	r.turns++
	c := cell{
		order: order{e.workload, fmt.Sprintf("%s:%d", r.id, r.turns), window, r.limit}, session: r.sessions[e.index],
		contender: e.contender.full(), setup: r.setup, server: r.server, progress: r.progress,
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
		if err := r.say("    %v\n", err); err != nil {
			return f, err
		}
	}
	return f, r.connect(ctx, e.index)
}

// metered runs the cell, and says what its pairs have cost.
func (r *runner) metered(ctx context.Context, c *cell) (f figures, err error) {
	_, elsewhere := c.session.(cellRunner)
	if c.Processes > 0 && !elsewhere {
		return c.run(ctx), nil // it looks itself what is spent, without what its processes need to start
	}
	before, err := r.server.spent(ctx)
	if err != nil {
		return f, err
	}
	allocated := mallocs()
	f = c.run(ctx)
	allocated = mallocs() - allocated
	after, err := r.server.spent(ctx)
	if err != nil {
		return f, err
	}
	if elsewhere {
		allocated = 0 // those are not its own
	}
	return f.spent(after.since(before), allocated), nil
}

// mallocs is how often this process has allocated so far.
func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

func (r *runner) report(which string, e *entry, f figures) error {
	remark := f.remark()
	if remark != "" {
		remark = "  " + remark
	}
	return r.say("%-5s %-24s %-22s %9.0f pairs/s%s\n", which, e.workload.Title, e.contender.full(), f.PerSecond, remark)
}

func (r *runner) say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.progress, format, args...)
	return err
}
