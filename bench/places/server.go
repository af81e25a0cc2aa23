package places

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// WithServer calls f with the address of a server: the one named, or one of our own
// that ends after f.
func WithServer(named string, f func(addr string) error) error {
	if named != "" {
		return f(named)
	}
	return OnStage(func(s *Stage) error { return f(redistest.Start(s).Addr()) })
}

// OnStage calls f with a stage, which ends when f returns.
func OnStage(f func(*Stage) error) (err error) {
	s := &Stage{}
	defer func() {
		failed := recover()
		for _, end := range slices.Backward(s.ends) {
			end()
		}
		if failed != nil && failed != any(s) {
			panic(failed)
		}
		err = errors.Join(err, s.failed)
	}()
	return f(s)
}

// A Stage is no test, but has all of one that redistest needs. What is started on it ends with it.
type Stage struct {
	testing.TB // nil

	ends   []func()
	failed error
}

// Helper implements [testing.TB].
func (*Stage) Helper() {}

// Cleanup implements [testing.TB].
func (s *Stage) Cleanup(f func()) { s.ends = append(s.ends, f) }

// Failed implements [testing.TB].
func (s *Stage) Failed() bool { return s.failed != nil }

// Logf implements [testing.TB].
func (*Stage) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatalf implements [testing.TB].
func (s *Stage) Fatalf(format string, args ...any) {
	s.failed = fmt.Errorf(format, args...)
	panic(s)
}

// TempDir implements [testing.TB].
func (s *Stage) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		s.Fatalf("%w", err)
	}
	s.Cleanup(func() { s.failed = errors.Join(s.failed, os.RemoveAll(dir)) })
	return dir
}

// slots are all slots of a cluster.
const slots = 16384

// clusterStart is how long a cluster may take to come together.
const clusterStart = 10 * time.Second

// StartCluster starts a cluster of primaries that share the slots, without replicas, and returns when all nodes know who
// has which. It is put together by hand, since redis-cli does not make one of fewer than three.
func StartCluster(ctx context.Context, tb testing.TB, primaries int) (*Place, error) {
	tb.Helper()
	addrs := make([]string, 0, primaries)
	for range primaries {
		addrs = append(addrs, redistest.Start(tb, redistest.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf")).Addr())
	}
	p := Open(tb, fmt.Sprintf("cluster of %d", primaries), addrs...)
	p.Cluster = true
	ctx, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	for i := range addrs {
		if err := p.join(ctx, i); err != nil {
			return nil, fmt.Errorf("making a cluster (it needs Redis 7.0): %w", err)
		}
	}
	for i := range addrs {
		if err := p.agreed(ctx, i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// join gives a node its share of the slots, and has it meet the first one.
func (p *Place) join(ctx context.Context, i int) error {
	n, node := len(p.Nodes), p.Nodes[i]
	host, port, err := net.SplitHostPort(p.Addrs[0])
	if err != nil {
		return err
	}
	// Without an epoch of its own, two would claim the same one, and have to agree who keeps it.
	if err := node.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
		return err
	}
	if err := node.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil || i == 0 {
		return err
	}
	return node.ClusterMeet(ctx, host, port).Err()
}

// agreed returns once a node knows all others and all slots.
func (p *Place) agreed(ctx context.Context, i int) error {
	nodes := strconv.Itoa(len(p.Nodes))
	want := map[string]string{
		"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(slots), "cluster_known_nodes": nodes, "cluster_size": nodes,
	}
	for {
		got, err := clusterInfo(ctx, p.Nodes[i])
		done := err == nil
		for name, value := range want {
			done = done && got[name] == value
		}
		if done {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the cluster has not come together: %v: %w", got, errors.Join(err, context.Cause(ctx)))
		}
		call.Sleep(ctx, 20*time.Millisecond) // between two questions
	}
}
