package redistest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestReplicated(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 2)
	r.Primary.Cli(t, "SET", "k", "v")
	for _, replica := range r.Replicas {
		waitFor(t, replica.Addr()+" has the write", func() bool { return replica.Cli(t, "GET", "k") == "v" })
	}
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 2, 3)
	if got := len(s.Addrs()); got != 3 {
		t.Fatalf("%d sentinels, want 3", got)
	}
	first := s.Primary(t)
	if got := len(s.Replicas(t)); got != 2 {
		t.Fatalf("%d replicas, want 2", got)
	}
	second := s.Failover(t)
	if second == first {
		t.Fatalf("%s is still the primary", first.Addr())
	}
	second.Cli(t, "SET", "k", "v")
}

func TestSentinelReplacesKilledPrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	killed := s.KillPrimary(t)
	primary := s.WaitNewPrimary(t, killed)
	if primary == killed {
		t.Fatalf("%s is still the primary", killed.Addr())
	}
	primary.Cli(t, "SET", "k", "v")
	if got := s.Primary(t); got != primary {
		t.Fatalf("the primary is %s, want %s", got.Addr(), primary.Addr())
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	if got := len(c.Addrs()); got != 6 {
		t.Fatalf("%d nodes, want 6", got)
	}
	for _, key := range []string{"a", "b", "c", "{a}x"} {
		// A node that does not own the slot answers with an error.
		c.NodeFor(t, key).Cli(t, "SET", key, "v")
	}
	old := c.NodeFor(t, "a")
	old.Kill()
	c.WaitNewNodeFor(t, "a", old).Cli(t, "SET", "a", "w")
}

func TestClusterWithoutReplicas(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	c.NodeFor(t, "k").Cli(t, "SET", "k", "v")
}
