package workloads

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
)

// A Cell is one workload under one contender in one round.
type Cell struct {
	Order

	Session *contenders.Session

	// For a workload with several processes.
	contender string // its full name
	setup     contenders.Setup
	server    *places.Place
	progress  io.Writer // for what the processes write to their standard errors
}

// Run runs the cell. It returns within the ramp, the window and three times the limit;
// if it has to start processes, these may take some more.
func (c *Cell) Run(ctx context.Context) Figures {
	switch {
	case c.Session.RunCell != nil:
		return c.elsewhere(ctx)
	case c.Processes > 0:
		return c.inProcesses(ctx)
	}
	return summarize([]outcome{c.here(ctx)}, c.Window)
}

// here runs the cell in this process, and on one client.
func (c *Cell) here(ctx context.Context) outcome {
	rooms := make([]places.Room, 1)
	if !c.Shared {
		rooms = make([]places.Room, c.Goroutines)
	}
	g := &gang{
		Order: c.Order, goroutines: c.Goroutines,
		locks: func(int) *contenders.Session { return c.Session }, room: func(i int) *places.Room { return &rooms[i%len(rooms)] },
	}
	o := g.run(ctx)
	for i := range rooms {
		o.Overlaps += int(rooms[i].Overlaps.Load())
	}
	if c.Turns() {
		o.room = rooms[0].Reading()
	}
	return o
}

// elsewhere has a program run the cell that gives the figures itself. Figures that do not come are a standstill, after
// which the runner starts another one.
func (c *Cell) elsewhere(ctx context.Context) (f Figures) {
	if err := c.Session.RunCell(ctx, c.Window+2*c.Limit, c.Order, &f); err != nil {
		return Figures{StoodStill: true, Stuck: c.Goroutines, Errors: 1, Error: err.Error()}
	}
	f.PerSecond = float64(f.Pairs) / c.Window.Seconds()
	f.Processes = c.Processes // clients, but they count as such
	return f
}

// A gang is the goroutines of a cell that run in one process.
type gang struct {
	Order

	goroutines int // of this process
	process    int // its number
	// locks and room are those of the goroutine of a number.
	locks func(i int) *contenders.Session
	room  func(i int) *places.Room
	// abandon ends what is under way when the window is over. Without it, pairs that
	// were begun are completed.
	abandon bool

	workers []*worker
	tallies []tally // of those that have come back
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

	room places.RoomReading
}

// run runs the gang. It returns within the ramp, the window and three times the limit.
func (g *gang) run(ctx context.Context) (o outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	g.makeWorkers(start)
	if g.abandon {
		over := time.AfterFunc(time.Until(g.workers[0].until), cancel)
		defer over.Stop()
	}
	results := make(chan tally, len(g.workers)) // so that a worker that is given up can end
	for _, w := range g.workers {
		go func() { results <- w.run(ctx) }()
	}
	o.Still = g.watch(ctx, cancel, start, results)
	o.Tallies, o.Stuck = g.tallies, len(g.workers)-len(g.tallies)
	if o.Stuck > 0 {
		for _, w := range g.workers {
			o.StuckPairs += int(w.pairs.Load())
		}
		for _, t := range g.tallies {
			o.StuckPairs -= t.Pairs
		}
	}
	return o
}

// makeWorkers makes the goroutines' workers.
func (g *gang) makeWorkers(start time.Time) {
	g.workers = make([]*worker, g.goroutines)
	for i := range g.workers {
		which := 0 // the lock
		if !g.Shared {
			which = i
		}
		w := &worker{
			from: start.Add(g.Ramp), until: start.Add(g.Ramp + g.Window),
			visitor:    places.Visitor{Room: g.room(i), Shared: g.Shared, Turns: g.Turns(), Hold: g.Hold, Who: g.who(i)},
			writeEvery: g.WriteEvery, alternate: g.Alternate,
		}
		w.pair, w.write = g.pairs(g.locks(i), fmt.Sprintf("%s:%d", g.Prefix, which))
		g.workers[i] = w
	}
}

// watch returns when every worker has reported, or when those that have not are
// given up. It ends what takes too long, and reports whether that was the whole gang.
func (g *gang) watch(ctx context.Context, cancel context.CancelFunc, start time.Time, results <-chan tally) (still bool) {
	tick := time.NewTicker(g.Limit / 10)
	defer tick.Stop()
	giveUp := time.NewTimer(g.Ramp + g.Window + 3*g.Limit)
	defer giveUp.Stop()
	for len(g.tallies) < len(g.workers) {
		select {
		case t := <-results:
			g.tallies = append(g.tallies, t)
		case now := <-tick.C:
			switch oldest := now.Add(-g.Limit); {
			case ctx.Err() != nil:
			case g.moved(start).Before(oldest):
				still = true
				cancel()
			default:
				for _, w := range g.workers {
					w.cutIfOlder(oldest)
				}
			}
		case <-giveUp.C:
			return still
		}
	}
	return still
}

// moved returns when the gang last completed a pair; its start if it has not.
func (g *gang) moved(start time.Time) time.Time {
	latest := start
	for _, w := range g.workers {
		if at := time.Unix(0, w.last.Load()); at.After(latest) {
			latest = at
		}
	}
	return latest
}

// who is between whom hand-overs count: processes, where several goroutines share one,
// else goroutines.
func (g *gang) who(i int) int64 {
	if g.Processes > 0 && !g.Clients {
		return int64(g.process + 1)
	}
	return int64(g.process)<<32 + int64(i) + 1
}
