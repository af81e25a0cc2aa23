package scale

import (
	"math"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// go-redis' cluster client leaves them behind when it is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}

// Each client opens a cluster, and its pairs are shared among the primaries.
func TestPlaces(t *testing.T) {
	p, err := places.StartCluster(t.Context(), t, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range contenders.Ours() {
		s, err := client.Open(t.Context(), contenders.Setup{Addrs: p.Addrs, Cluster: true, Pool: 10, Lease: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		before, err := p.Spent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const pairs = 100
		for _, name := range held.MakeNames(client.Client, pairs) {
			if err := s.Pair(name)(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		after, err := p.Spent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spent := after.Since(before)
		if n := spent.Total().Scripts; n < 2*pairs || n > 2*pairs+10 || slices.Min(spent.Shares()) < 0.2 {
			t.Errorf("%s: %d scripts, %v", client.Client, n, spent.Shares())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// As small as can be: each primary has a part in the scripts, messages that are not sharded go to
// all other nodes and sharded ones to none, and holds in a few hash tags are renewed in fewer calls
// than others on a cluster: how many fewer depends on who was slow to lock, and so is renewed at another time.
func TestScale(t *testing.T) {
	run := Run{
		Setup:      contenders.Setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 20, Lease: 8 * time.Second},
		Contenders: contenders.Ours()[:1], Rounds: 1, Window: time.Second / 2, Limit: 2 * time.Second, Holds: 500, Quick: true, Progress: t.Output(),
	}
	r, err := run.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range r.Primaries {
		sum := 0.0
		for _, s := range p.Shares {
			sum += s
			if s < 0.05 {
				t.Errorf("%s: a node has no part: %v", p.Place, p.Shares)
			}
		}
		if len(p.Shares) != max(1, i) || math.Abs(sum-1) > 0.01 || p.PerSecond.Median == 0 || p.BusiestMicros.Median > p.RedisMicros.Median {
			t.Errorf("%+v", p)
		}
	}
	for _, m := range r.Messages {
		if m.Sharded && m.Bus.Median > 0 || !m.Sharded && m.Bus.Median < 1 { // of 2: a window is short
			t.Errorf("sharded %t: %v messages between nodes for each pair", m.Sharded, m.Bus.Median)
		}
	}
	if k := r.Renewals; k[2].Calls*1.25 > k[1].Calls || k[0].Calls > k[1].Calls || k[0].Lost+k[1].Lost+k[2].Lost > 0 {
		t.Errorf("calls of renewals: one server %+v, cluster %+v, in hash tags %+v", k[0], k[1], k[2])
	}
	// What a channel costs is little beside the buffers that Redis frees meanwhile, so with few of them it may be below zero.
	if s := r.Subscribers; s.ListenerBytes < 100 || s.ChannelBytes == 0 || s.MessageMicros <= 0 {
		t.Errorf("%+v", s)
	}
}
