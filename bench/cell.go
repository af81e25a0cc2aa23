package main

import (
	"context"
	"fmt"
	"io"
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

	// For a workload with several processes.
	contender string // its full name
	setup     setup
	meter     meter
	progress  io.Writer // for what the processes write to their standard errors
}

// run runs the cell. It returns within the ramp, the window and three times the limit;
// if it has to start processes, these may take some more.
func (c *cell) run(ctx context.Context) figures {
	switch s := c.session.(type) {
	case cellRunner:
		return s.runCell(ctx, c)
	case pairer:
		if c.workload.processes > 0 {
			return c.inProcesses(ctx)
		}
		return summarize([]outcome{c.here(ctx, s)}, c.window)
	}
	return figures{StoodStill: true, Error: fmt.Sprintf("%T has no pairs", c.session)}
}

// here runs the cell in this process, and on one client.
func (c *cell) here(ctx context.Context, locks pairer) outcome {
	rooms := make([]room, 1)
	if !c.workload.shared {
		rooms = make([]room, c.workload.goroutines)
	}
	g := &gang{
		workload: c.workload, window: c.window, limit: c.limit, prefix: c.prefix, goroutines: c.workload.goroutines,
		locks: func(int) pairer { return locks }, room: func(i int) *room { return &rooms[i%len(rooms)] },
	}
	o := g.run(ctx)
	for i := range rooms {
		o.Overlaps += int(rooms[i].overlaps.Load())
	}
	if c.workload.turns() {
		o.room = rooms[0].reading()
	}
	return o
}
