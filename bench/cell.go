package main

import (
	"context"
	"fmt"
	"time"
)

// A cell is one workload under one contender in one round.
type cell struct {
	workload workload
	session  session
	prefix   string // of the locks' names
	// window is how long pairs are begun and counted.
	window time.Duration
	// limit is how long a pair may take, and how long a cell may be without one.
	limit time.Duration
}

// run runs the cell. It returns within the window and three times the limit.
func (c *cell) run(ctx context.Context) figures {
	switch s := c.session.(type) {
	case cellRunner:
		return s.runCell(ctx, c)
	case pairer:
		return c.goroutines(ctx, s)
	}
	return figures{StoodStill: true, Error: fmt.Sprintf("%T has no pairs", c.session)}
}

// goroutines runs the cell in this process.
func (c *cell) goroutines(ctx context.Context, locks pairer) figures {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	workers, rooms := c.people(locks, start)
	results := make(chan tally, len(workers)) // so that a worker that is given up can end
	for _, w := range workers {
		go func() { results <- w.run(ctx) }()
	}
	s := supervisor{cell: c, workers: workers, results: results, cancel: cancel, start: start}
	s.watch(ctx)
	f := summarize(s.tallies, c.window)
	f.StoodStill, f.Stuck = s.still, len(workers)-len(s.tallies)
	if f.Stuck > 0 { // their pairs count, though they cannot report them
		f.Pairs = int(s.completed())
		f.PerSecond = float64(f.Pairs) / c.window.Seconds()
	}
	for _, r := range rooms {
		f.Overlaps += int(r.overlaps.Load())
	}
	return f
}

// people makes the workers, and the rooms that their locks protect.
func (c *cell) people(locks pairer, start time.Time) ([]*worker, []*room) {
	workers := make([]*worker, c.workload.goroutines)
	var rooms []*room
	for i := range workers {
		if i == 0 || !c.workload.shared {
			rooms = append(rooms, &room{shared: c.workload.shared})
		}
		which := len(rooms) - 1
		name := fmt.Sprintf("%s:%d", c.prefix, which)
		workers[i] = &worker{pair: locks.pair(name), inner: rooms[which], until: start.Add(c.window)}
	}
	return workers, rooms
}

// A supervisor waits for the workers of a cell, and sees to it that they end.
type supervisor struct {
	cell    *cell
	workers []*worker
	results <-chan tally
	cancel  context.CancelFunc
	start   time.Time

	tallies []tally
	still   bool
}

// watch returns when every worker has reported, or when those that have not are
// given up.
func (s *supervisor) watch(ctx context.Context) {
	tick := time.NewTicker(s.cell.limit / 10)
	defer tick.Stop()
	giveUp := time.NewTimer(s.cell.window + 3*s.cell.limit)
	defer giveUp.Stop()
	for len(s.tallies) < len(s.workers) {
		select {
		case t := <-s.results:
			s.tallies = append(s.tallies, t)
		case now := <-tick.C:
			if ctx.Err() == nil {
				s.look(now)
			}
		case <-giveUp.C:
			return
		}
	}
}

// look ends what takes too long: the whole cell if nothing moves in it, a single
// pair otherwise.
func (s *supervisor) look(now time.Time) {
	oldest := now.Add(-s.cell.limit)
	if s.moved().Before(oldest) {
		s.still = true
		s.cancel()
		return
	}
	for _, w := range s.workers {
		w.cutIfOlder(oldest)
	}
}

// moved returns when the cell last completed a pair; its start if it has not.
func (s *supervisor) moved() time.Time {
	latest := s.start
	for _, w := range s.workers {
		if at := time.Unix(0, w.last.Load()); at.After(latest) {
			latest = at
		}
	}
	return latest
}

func (s *supervisor) completed() (pairs int64) {
	for _, w := range s.workers {
		pairs += w.pairs.Load()
	}
	return pairs
}
