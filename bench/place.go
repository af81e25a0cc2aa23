package main

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/call"
)

// A place is where locks are: one server, or a cluster of some primaries.
type place struct {
	name    string
	cluster bool
	addrs   []string
	nodes   []*redis.Client // to each of them, to read what it has spent
}

// openPlace connects to the nodes of a place, until the test or the stage ends.
func openPlace(t testing.TB, name string, addrs ...string) *place {
	t.Helper()
	p := &place{name: name, addrs: addrs}
	for _, addr := range addrs {
		node := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		t.Cleanup(func() { _ = node.Close() }) // it has nothing to lose
		p.nodes = append(p.nodes, node)
	}
	return p
}

// A spending is what each node of a place, and this process, has spent up to a moment, or
// between two.
type spending struct {
	at     time.Time
	passed time.Duration // between the two
	own    time.Duration // of this process
	nodes  []nodeSpending
}

type nodeSpending struct {
	cpu      time.Duration // of the server process
	executed int64         // commands, those that scripts call included
	scripts  int64         // those of them that run scripts
	bus      int64         // messages of publishers, sent to other nodes
}

// spent reads what has been spent so far.
func (p *place) spent(ctx context.Context) (s spending, err error) {
	for _, node := range p.nodes {
		n, err := spentBy(ctx, node, p.cluster)
		if err != nil {
			return s, fmt.Errorf("%s: %w", p.name, err)
		}
		s.nodes = append(s.nodes, n)
	}
	s.at = time.Now()
	s.own, err = processCPU()
	return s, err
}

func spentBy(ctx context.Context, node *redis.Client, cluster bool) (n nodeSpending, err error) {
	stats, err := infoOf(ctx, node, "Commandstats")
	if err != nil {
		return n, err
	}
	if n.executed, n.scripts, err = executed(stats); err != nil {
		return n, err
	}
	cpu, err := infoOf(ctx, node, "CPU")
	if err != nil {
		return n, err
	}
	if n.cpu, err = cpuTime(cpu); err != nil || !cluster {
		return n, err
	}
	info, err := clusterInfo(ctx, node)
	if err != nil {
		return n, err
	}
	n.bus, err = busMessages(info)
	return n, err
}

// since is what has been spent since an earlier moment. Both are of one place.
func (s spending) since(before spending) spending {
	d := spending{passed: s.at.Sub(before.at), own: s.own - before.own}
	for i, n := range s.nodes {
		b := before.nodes[i]
		d.nodes = append(d.nodes, nodeSpending{n.cpu - b.cpu, n.executed - b.executed, n.scripts - b.scripts, n.bus - b.bus})
	}
	return d
}

// spentIn is what is spent in so long.
func (p *place) spentIn(ctx context.Context, window time.Duration) (s spending, err error) {
	before, err := p.spent(ctx)
	if err != nil {
		return s, err
	}
	call.Sleep(ctx, window)
	after, err := p.spent(ctx)
	if err != nil {
		return s, err
	}
	return after.since(before), ctx.Err()
}

// total is what all nodes have spent, and most what the one has that has spent the most time.
func (s spending) total() (sum nodeSpending) {
	for _, n := range s.nodes {
		sum.cpu += n.cpu
		sum.executed += n.executed
		sum.scripts += n.scripts
		sum.bus += n.bus
	}
	return sum
}

func (s spending) most() (busiest time.Duration) {
	for _, n := range s.nodes {
		busiest = max(busiest, n.cpu)
	}
	return busiest
}

// shares are which part of the scripts each node has executed.
func (s spending) shares() (all []float64) {
	total := max(s.total().scripts, 1)
	for _, n := range s.nodes {
		all = append(all, float64(n.scripts)/float64(total))
	}
	return all
}

// memory is how many bytes the nodes use, all together.
func (p *place) memory(ctx context.Context) (bytes int64, err error) {
	for _, node := range p.nodes {
		used, err := usedMemory(ctx, node)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.name, err)
		}
		bytes += used
	}
	return bytes, nil
}

// processCPU returns how long this process has been on a core, in user and system
// mode together, all of its threads.
func processCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// What counts as quiet: for so long this process has used less than so much of a
// core. With those that poll it never is, so it is not waited for longer than the limit.
const (
	quietFor   = 200 * time.Millisecond
	quietShare = 0.05
	quietLimit = 5 * time.Second
)

// awaitQuiet waits until what has been started is under way: connections made, waiters
// asleep.
func awaitQuiet(ctx context.Context) error {
	for end := time.Now().Add(quietLimit); time.Now().Before(end); {
		start := time.Now()
		before, err := processCPU()
		if err != nil {
			return err
		}
		call.Sleep(ctx, quietFor)
		after, err := processCPU()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if share(after-before, time.Since(start)) < quietShare {
			return nil
		}
	}
	return nil
}

// share is how much of a core a time on it is.
func share(spent, passed time.Duration) float64 { return spent.Seconds() / passed.Seconds() }
