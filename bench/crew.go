package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// How long a process of a crew may take, beside the work.
const (
	crewStart = 20 * time.Second // to connect all of its clients, on a busy machine
	crewGrace = 5 * time.Second  // to say what it has measured
)

// stillFrom is the shortest window in which each process should have had the lock.
const stillFrom = time.Second / 2

// A crew is the processes of a cell. All of them are children of this one, and map one
// room. They end when this one does, whatever they are doing.
type crew struct {
	members []*member
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
	limit := crewStart + c.workload.ramp + c.window + 3*c.limit + crewGrace
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	k, err := c.hire(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.all(func(m *member) error { return m.awaitReady(ctx) }); err != nil {
		return f, err
	}
	if err := k.all((*member).begin); err != nil {
		return f, err
	}
	spent, err := c.watch(ctx, k.room)
	if err != nil {
		return f, err
	}
	outcomes := make([]outcome, len(k.members))
	err = k.all(func(m *member) error { outcomes[m.number] = m.outcome(ctx); return nil })
	return c.figures(outcomes, spent), err
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
		return errors.Join(k.all((*member).dismiss), closeRoom(), os.RemoveAll(dir))
	}
	for i := range c.workload.processes {
		m, err := startMember(ctx, c.request(i, file), c.progress)
		if err != nil {
			return nil, err
		}
		k.members = append(k.members, m)
	}
	return k, nil
}

// all calls f for each process, all at the same time, and waits.
func (k *crew) all(f func(*member) error) error {
	failed := make([]error, len(k.members))
	var group sync.WaitGroup
	for i, m := range k.members {
		group.Go(func() {
			if err := f(m); err != nil {
				failed[i] = fmt.Errorf("process %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	for _, err := range failed { // one is enough to say
		if err != nil {
			return err
		}
	}
	return nil
}

// crewSpent is what has been counted and spent in the window.
type crewSpent struct {
	room          roomReading
	before, after reading
}

// watch waits for the window, and returns what has happened in it.
func (c *cell) watch(ctx context.Context, r *room) (s crewSpent, err error) {
	start := time.Now()
	pause(ctx, c.workload.ramp)
	r.longestFree.Store(0)
	if s.before, err = c.meter.before(ctx); err != nil {
		return s, err
	}
	first := r.reading()
	pause(ctx, time.Until(start.Add(c.workload.ramp+c.window)))
	s.room = r.reading().since(first)
	s.after, err = c.meter.after(ctx)
	return s, errors.Join(err, ctx.Err())
}

// figures puts together what the processes say, and what was seen of them from here.
func (c *cell) figures(outcomes []outcome, s crewSpent) figures {
	f := summarize(outcomes, c.window).handedOver(s.room)
	f.Overlaps = int(s.room.overlaps)
	f.Processes = len(outcomes)
	for i, o := range outcomes {
		pairs := o.pairs()
		if i == 0 {
			f.ProcessFewest = pairs
		}
		f.ProcessFewest, f.ProcessMost = min(f.ProcessFewest, pairs), max(f.ProcessMost, pairs)
		if pairs == 0 && c.window >= stillFrom {
			f.StillProcesses++
		}
	}
	f.StoodStill = f.StoodStill || f.Pairs == 0
	measured := figures{Completed: int(s.room.visits)}.spent(s.before, s.after)
	f.RedisMicros, f.Executed = measured.RedisMicros, measured.Executed
	if s.room.handOvers > 0 {
		f.Scripts = float64(s.after.scripts-s.before.scripts) / float64(s.room.handOvers)
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
