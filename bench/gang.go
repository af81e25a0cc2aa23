package main

import (
	"context"
	"fmt"
	"time"
)

// A gang is the goroutines of a cell that run in one process.
type gang struct {
	workload   workload
	window     time.Duration
	limit      time.Duration
	prefix     string // of the locks' names
	goroutines int    // of this process
	process    int    // its number
	// locks and room are those of the goroutine of a number.
	locks func(i int) pairer
	room  func(i int) *room
	// abandon ends what is under way when the window is over. Without it, pairs that
	// were begun are completed.
	abandon bool
}

// outcome is what has come of a gang.
type outcome struct {
	Tallies []tally `json:"tallies"`
	// Still: for as long as one pair may take, no goroutine completed any.
	Still bool `json:"still"`
	// Stuck goroutines did not come back when their context ended. Their tallies are
	// missing, but not the pairs that they have completed.
	Stuck      int             `json:"stuck"`
	StuckPairs int             `json:"stuck_pairs"`
	Overlaps   int             `json:"overlaps"`
	RoundTrips []time.Duration `json:"round_trips"` // of pings beside it
	Error      string          `json:"error"`       // why it could not run

	room roomReading
}

// run runs the gang. It returns within the ramp, the window and three times the limit.
func (g *gang) run(ctx context.Context) (o outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	workers := g.workers(start)
	if g.abandon {
		over := time.AfterFunc(time.Until(workers[0].until), cancel)
		defer over.Stop()
	}
	results := make(chan tally, len(workers)) // so that a worker that is given up can end
	for _, w := range workers {
		go func() { results <- w.run(ctx) }()
	}
	s := supervisor{gang: g, workers: workers, results: results, cancel: cancel, start: start}
	s.watch(ctx)
	o.Tallies, o.Still, o.Stuck = s.tallies, s.still, len(workers)-len(s.tallies)
	if o.Stuck > 0 {
		o.StuckPairs = int(s.completed())
		for _, t := range s.tallies {
			o.StuckPairs -= t.Pairs
		}
	}
	return o
}

// workers makes the goroutines' workers.
func (g *gang) workers(start time.Time) []*worker {
	workers := make([]*worker, g.goroutines)
	w := g.workload
	for i := range workers {
		which := 0 // the lock
		if !w.shared {
			which = i
		}
		workers[i] = &worker{
			from: start.Add(w.ramp), until: start.Add(w.ramp + g.window),
			visitor:    visitor{room: g.room(i), shared: w.shared, turns: w.turns(), hold: w.hold, who: g.who(i)},
			writeEvery: w.writeEvery, alternate: w.alternate,
		}
		workers[i].pair, workers[i].write = w.pairs(g.locks(i), fmt.Sprintf("%s:%d", g.prefix, which))
	}
	return workers
}

// turns reports whether the lock is handed over from one goroutine to the next.
func (w workload) turns() bool { return w.shared && w.kind != aReadWrite }

// who is between whom hand-overs count: processes, where several goroutines share one,
// else goroutines.
func (g *gang) who(i int) int64 {
	if g.workload.processes > 0 && !g.workload.clients {
		return int64(g.process + 1)
	}
	return int64(g.process)<<32 + int64(i) + 1
}

// pairs returns what a goroutine does with the lock of that name. The second one is
// for the writers of a read-write lock.
func (w workload) pairs(locks pairer, name string) (each, write pair) {
	if w.kind == aMutex {
		return locks.pair(name), nil
	}
	kinds, ok := locks.(kindPairer)
	switch {
	case !ok:
		failed := func(context.Context, func()) error { return fmt.Errorf("%T has no lock of the kind %s", locks, w.kind) }
		return failed, failed
	case w.kind == aFairLock:
		return kinds.fair(name), nil
	}
	return kinds.readWrite(name)
}
