package places

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/call"
)

// A Place is where locks are: one server, or a cluster of some primaries.
type Place struct {
	Name    string
	Cluster bool
	Addrs   []string
	Nodes   []*redis.Client // to each of them, to read what it has spent
}

// Open connects to the nodes of a place, until the test or the stage ends.
func Open(tb testing.TB, name string, addrs ...string) *Place {
	tb.Helper()
	p := &Place{Name: name, Addrs: addrs}
	for _, addr := range addrs {
		node := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		tb.Cleanup(func() { _ = node.Close() }) // it has nothing to lose
		p.Nodes = append(p.Nodes, node)
	}
	return p
}

// A Spending is what each node of a place, and this process, has spent up to a moment, or
// between two.
type Spending struct {
	at     time.Time
	Passed time.Duration // between the two
	Own    time.Duration // of this process
	Nodes  []NodeSpending
}

// NodeSpending is what one node has spent.
type NodeSpending struct {
	CPU     time.Duration // of the server process
	Scripts int64         // that it has run
	Bus     int64         // messages of publishers, sent to other nodes
}

// Spent reads what has been spent so far.
func (p *Place) Spent(ctx context.Context) (s Spending, err error) {
	for _, node := range p.Nodes {
		n, err := spentBy(ctx, node, p.Cluster)
		if err != nil {
			return s, fmt.Errorf("%s: %w", p.Name, err)
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.at = time.Now()
	s.Own, err = processCPU()
	return s, err
}

func spentBy(ctx context.Context, node *redis.Client, cluster bool) (n NodeSpending, err error) {
	stats, err := Info(ctx, node, "Commandstats")
	if err != nil {
		return n, err
	}
	if n.Scripts, err = scriptsRun(stats); err != nil {
		return n, err
	}
	cpu, err := Info(ctx, node, "CPU")
	if err != nil {
		return n, err
	}
	if n.CPU, err = cpuTime(cpu); err != nil || !cluster {
		return n, err
	}
	info, err := clusterInfo(ctx, node)
	if err != nil {
		return n, err
	}
	n.Bus, err = busMessages(info)
	return n, err
}

// Since is what has been spent since an earlier moment. Both are of one place.
func (s Spending) Since(before Spending) Spending {
	d := Spending{Passed: s.at.Sub(before.at), Own: s.Own - before.Own}
	for i, n := range s.Nodes {
		b := before.Nodes[i]
		d.Nodes = append(d.Nodes, NodeSpending{n.CPU - b.CPU, n.Scripts - b.Scripts, n.Bus - b.Bus})
	}
	return d
}

// SpentIn is what is spent in so long.
func (p *Place) SpentIn(ctx context.Context, window time.Duration) (s Spending, err error) {
	before, err := p.Spent(ctx)
	if err != nil {
		return s, err
	}
	call.Sleep(ctx, window)
	after, err := p.Spent(ctx)
	if err != nil {
		return s, err
	}
	return after.Since(before), ctx.Err()
}

// Total is what all nodes have spent.
func (s Spending) Total() (sum NodeSpending) {
	for _, n := range s.Nodes {
		sum.CPU += n.CPU
		sum.Scripts += n.Scripts
		sum.Bus += n.Bus
	}
	return sum
}

// Most is the time of the node that has spent the most.
func (s Spending) Most() (busiest time.Duration) {
	for _, n := range s.Nodes {
		busiest = max(busiest, n.CPU)
	}
	return busiest
}

// Shares are which part of the scripts each node has executed.
func (s Spending) Shares() (all []float64) {
	total := max(s.Total().Scripts, 1)
	for _, n := range s.Nodes {
		all = append(all, float64(n.Scripts)/float64(total))
	}
	return all
}

// Memory is how many bytes the nodes use, all together.
func (p *Place) Memory(ctx context.Context) (bytes int64, err error) {
	for _, node := range p.Nodes {
		used, err := usedMemory(ctx, node)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
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

// AwaitQuiet waits until what has been started is under way: connections made, waiters
// asleep.
func AwaitQuiet(ctx context.Context) error {
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
		if Share(after-before, time.Since(start)) < quietShare {
			return nil
		}
	}
	return nil
}

// Share is how much of a core a time on it is.
func Share(spent, passed time.Duration) float64 { return spent.Seconds() / passed.Seconds() }

// Load returns the load average of the last minute, where there is such a thing.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
