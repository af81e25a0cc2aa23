package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Each client opens a cluster, and its pairs are shared among the primaries.
func TestPlaces(t *testing.T) {
	p, err := startCluster(t.Context(), t, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range ours() {
		s, err := openHolder(t.Context(), client, setup{Addrs: p.addrs, Cluster: true, Pool: 10, Lease: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		before, err := p.spent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const pairs = 100
		for _, name := range makeNames(client.client, pairs) {
			if err := s.pair(name)(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
		}
		after, err := p.spent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spent := after.since(before)
		if n := spent.total().scripts; n < 2*pairs || n > 2*pairs+10 || slices.Min(spent.shares()) < 0.2 {
			t.Errorf("%s: %d scripts, %v", client.client, n, spent.shares())
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// As small as can be: each primary has a part in the scripts, messages that are not sharded go to
// all other nodes and sharded ones to none, and holds in a few hash tags are renewed in fewer calls
// than others on a cluster: how many fewer depends on who was slow to lock, and so is renewed at another time.
func TestScale(t *testing.T) {
	run := scaleRun{
		setup:      setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 20, Lease: 8 * time.Second},
		contenders: ours()[:1], rounds: 1, window: time.Second / 2, limit: 2 * time.Second, holds: 500, quick: true, progress: t.Output(),
	}
	r, err := run.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range r.primaries {
		sum := 0.0
		for _, s := range p.shares {
			sum += s
			if s < 0.05 {
				t.Errorf("%s: a node has no part: %v", p.place, p.shares)
			}
		}
		if len(p.shares) != max(1, i) || math.Abs(sum-1) > 0.01 || p.perSecond.Median == 0 || p.busiestMicros.Median > p.redisMicros.Median {
			t.Errorf("%+v", p)
		}
	}
	for _, m := range r.messages {
		if m.sharded && m.bus.Median > 0 || !m.sharded && m.bus.Median < 1 { // of 2: a window is short
			t.Errorf("sharded %t: %v messages between nodes for each pair", m.sharded, m.bus.Median)
		}
	}
	if k := r.renewals; k[2].calls*1.25 > k[1].calls || k[0].calls > k[1].calls || k[0].lost+k[1].lost+k[2].lost > 0 {
		t.Errorf("calls of renewals: one server %+v, cluster %+v, in hash tags %+v", k[0], k[1], k[2])
	}
	if err := writeScale(t.Output(), r); err != nil {
		t.Error(err)
	}
	// What a channel costs is little beside the buffers that Redis frees meanwhile, so with few of them it may be below zero.
	if s := r.subscribers; s.listenerBytes < 100 || s.channelBytes == 0 || s.messageMicros <= 0 {
		t.Errorf("%+v", s)
	}
}
