package workloads

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

	"github.com/holdfast-go/holdfast/bench/crews"
	"github.com/holdfast-go/holdfast/bench/places"
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
func (o Order) crewLimit() time.Duration {
	return crewStart + o.Ramp + o.Window + 3*o.Limit + crewGrace
}

// A crew is the processes of a cell. All of them are children of this one, and map one
// room. They end when this one does, whatever they are doing.
type crew struct {
	members []*crews.Process
	room    *places.Room
	close   func() error
}

// inProcesses runs the cell in processes of its own.
func (c *Cell) inProcesses(ctx context.Context) Figures {
	f, err := c.withCrew(ctx)
	if err != nil {
		f.StoodStill, f.Errors = true, f.Errors+1
		f.Error = err.Error()
	}
	return f
}

func (c *Cell) withCrew(ctx context.Context) (f Figures, err error) {
	// Whoever does not end in time is killed with this context.
	ctx, cancel := context.WithTimeout(ctx, c.crewLimit())
	defer cancel()
	k, err := c.hire(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.all(func(_ int, p *crews.Process) error { return p.Ready(ctx, crewStart) }); err != nil {
		return f, err
	}
	if err := k.all(func(_ int, p *crews.Process) error { return p.Say("begin") }); err != nil {
		return f, err
	}
	spent, err := c.watch(ctx, k.room)
	if err != nil {
		return f, err
	}
	outcomes := make([]outcome, len(k.members))
	err = k.all(func(i int, p *crews.Process) error { outcomes[i] = outcomeOf(ctx, p, c.share(i)); return nil })
	return c.figures(outcomes, spent), err
}

// outcomeOf is what a process of so many goroutines has measured; if it does not say, that is a standstill.
func outcomeOf(ctx context.Context, p *crews.Process, goroutines int) (o outcome) {
	if err := p.Answer(ctx, &o); err != nil {
		return outcome{Still: true, Stuck: goroutines, Error: err.Error()}
	}
	return o
}

// hire starts the processes.
func (c *Cell) hire(ctx context.Context) (k *crew, err error) {
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
	if err := places.NewRoomFile(file); err != nil {
		return nil, err
	}
	r, closeRoom, err := places.OpenRoom(file)
	if err != nil {
		return nil, err
	}
	k.room = r
	k.close = func() error {
		return errors.Join(k.all(func(_ int, p *crews.Process) error { return p.Close() }), closeRoom(), os.RemoveAll(dir))
	}
	setup := c.setup
	setup.Small = c.Clients
	for i := range c.Processes {
		p, err := startMember(ctx, memberRequest{Order: c.Order, Contender: c.contender, Setup: setup, Room: file, Process: i}, c.progress)
		if err != nil {
			return nil, err
		}
		k.members = append(k.members, p)
	}
	return k, nil
}

// startMember starts this program once more. It is killed at the end of the context.
func startMember(ctx context.Context, q memberRequest, stderr io.Writer) (*crews.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := crews.Start(ctx, crewGrace, stderr, []string{memberEnv + "=1", "GORACE=atexit_sleep_ms=0"}, self)
	if err != nil {
		return nil, err
	}
	if err := p.Say(q); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// all calls f for each process, all at the same time, and waits.
func (k *crew) all(f func(int, *crews.Process) error) error {
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
	room   places.RoomReading
	server places.Spending
}

// watch waits for the window, and returns what has happened in it.
func (c *Cell) watch(ctx context.Context, r *places.Room) (s crewSpent, err error) {
	start := time.Now()
	call.Sleep(ctx, c.Ramp)
	r.LongestFree.Store(0)
	before, err := c.server.Spent(ctx)
	if err != nil {
		return s, err
	}
	first := r.Reading()
	call.Sleep(ctx, time.Until(start.Add(c.Ramp+c.Window)))
	s.room = r.Reading().Since(first)
	after, err := c.server.Spent(ctx)
	if err != nil {
		return s, err
	}
	s.server = after.Since(before)
	return s, ctx.Err()
}

// figures puts together what the processes say, and what was seen of them from here.
func (c *Cell) figures(outcomes []outcome, s crewSpent) Figures {
	f := summarize(outcomes, c.Window).handedOver(s.room)
	f.Overlaps = int(s.room.Overlaps)
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
	f.RedisMicros = Figures{Completed: int(s.room.Visits)}.spent(s.server).RedisMicros
	if s.room.HandOvers > 0 {
		f.Scripts = float64(s.server.Total().Scripts) / float64(s.room.HandOvers)
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
