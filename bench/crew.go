package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

// How long a process of a crew may take, beside the work.
const (
	crewStart = 20 * time.Second // to connect all of its clients, on a busy machine
	crewGrace = 5 * time.Second  // to say what it has measured
)

// stillFrom is the shortest window in which each process should have had the lock.
const stillFrom = time.Second / 2

// crewLimit is how long a crew may live.
func (o order) crewLimit() time.Duration {
	return crewStart + o.Ramp + o.Window + 3*o.Limit + crewGrace
}

// A crew is the processes of a cell. All of them are children of this one, and map one
// room. They end when this one does, whatever they are doing.
type crew struct {
	members []*process
	room    *room
	close   func() error
}

// inProcesses runs the cell in processes of its own.
func (c *cell) inProcesses(ctx context.Context) figures {
	f, err := c.withCrew(ctx)
	if err != nil {
		f.StoodStill, f.Errors = true, f.Errors+1
		f.Error = err.Error()
	}
	return f
}

func (c *cell) withCrew(ctx context.Context) (f figures, err error) {
	// Whoever does not end in time is killed with this context.
	ctx, cancel := context.WithTimeout(ctx, c.crewLimit())
	defer cancel()
	k, err := c.hire(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.all(func(_ int, p *process) error { return p.ready(ctx, crewStart) }); err != nil {
		return f, err
	}
	if err := k.all(func(_ int, p *process) error { return p.say("begin") }); err != nil {
		return f, err
	}
	spent, err := c.watch(ctx, k.room)
	if err != nil {
		return f, err
	}
	outcomes := make([]outcome, len(k.members))
	err = k.all(func(i int, p *process) error { outcomes[i] = outcomeOf(ctx, p, c.share(i)); return nil })
	return c.figures(outcomes, spent), err
}

// outcomeOf is what a process of so many goroutines has measured; if it does not say, that is a standstill.
func outcomeOf(ctx context.Context, p *process, goroutines int) (o outcome) {
	if err := p.answer(ctx, &o); err != nil {
		return outcome{Still: true, Stuck: goroutines, Error: err.Error()}
	}
	return o
}

// hire starts the processes.
func (c *cell) hire(ctx context.Context) (k *crew, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "room")
	k = &crew{close: func() error { return os.RemoveAll(dir) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if err := newRoomFile(file); err != nil {
		return nil, err
	}
	r, closeRoom, err := openRoom(file)
	if err != nil {
		return nil, err
	}
	k.room = r
	k.close = func() error {
		return errors.Join(k.all(func(_ int, p *process) error { return p.close() }), closeRoom(), os.RemoveAll(dir))
	}
	setup := c.setup
	setup.Small = c.Clients
	for i := range c.Processes {
		p, err := startMember(ctx, memberRequest{order: c.order, Contender: c.contender, Setup: setup, Room: file, Process: i}, c.progress)
		if err != nil {
			return nil, err
		}
		k.members = append(k.members, p)
	}
	return k, nil
}

// startMember starts this program once more. It is killed at the end of the context.
func startMember(ctx context.Context, q memberRequest, stderr io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, crewGrace, stderr, []string{memberEnv + "=1", "GORACE=atexit_sleep_ms=0"}, self)
	if err != nil {
		return nil, err
	}
	if err := p.say(q); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// all calls f for each process, all at the same time, and waits.
func (k *crew) all(f func(int, *process) error) error {
	failed := make([]error, len(k.members))
	var group sync.WaitGroup
	for i, p := range k.members {
		group.Go(func() {
			if err := f(i, p); err != nil {
				failed[i] = fmt.Errorf("process %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	return cmp.Or(failed...) // one is enough to say
}

// crewSpent is what has been counted and spent in the window.
type crewSpent struct {
	room   roomReading
	server spending
}

// watch waits for the window, and returns what has happened in it.
func (c *cell) watch(ctx context.Context, r *room) (s crewSpent, err error) {
	start := time.Now()
	call.Sleep(ctx, c.Ramp)
	r.longestFree.Store(0)
	before, err := c.server.spent(ctx)
	if err != nil {
		return s, err
	}
	first := r.reading()
	call.Sleep(ctx, time.Until(start.Add(c.Ramp+c.Window)))
	s.room = r.reading().since(first)
	after, err := c.server.spent(ctx)
	if err != nil {
		return s, err
	}
	s.server = after.since(before)
	return s, ctx.Err()
}

// figures puts together what the processes say, and what was seen of them from here.
func (c *cell) figures(outcomes []outcome, s crewSpent) figures {
	f := summarize(outcomes, c.Window).handedOver(s.room)
	f.Overlaps = int(s.room.overlaps)
	f.Processes = len(outcomes)
	for i, o := range outcomes {
		pairs := o.pairs()
		if i == 0 {
			f.ProcessFewest = pairs
		}
		f.ProcessFewest, f.ProcessMost = min(f.ProcessFewest, pairs), max(f.ProcessMost, pairs)
		if pairs == 0 && c.Window >= stillFrom {
			f.StillProcesses++
		}
	}
	f.StoodStill = f.StoodStill || f.Pairs == 0
	measured := figures{Completed: int(s.room.visits)}.spent(s.server, 0)
	f.RedisMicros, f.Executed = measured.RedisMicros, measured.Executed
	if s.room.handOvers > 0 {
		f.Scripts = float64(s.server.total().scripts) / float64(s.room.handOvers)
	}
	return f
}

// pairs are all that a gang has completed in the window.
func (o outcome) pairs() (sum int) {
	for _, t := range o.Tallies {
		sum += t.Pairs
	}
	return sum + o.StuckPairs
}
