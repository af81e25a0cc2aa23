package main

import (
	"maps"
	"math"
	"slices"
	"testing"
)

// A cluster of two is made of two nodes that share the slots.
func TestCluster(t *testing.T) {
	c, err := startCluster(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	rdb := c.client(1)
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	shards, err := rdb.ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	shared := map[int64]int64{}
	for _, shard := range shards {
		for _, slots := range shard.Slots {
			shared[slots.Start] = slots.End
		}
	}
	if want := map[int64]int64{0: slots/2 - 1, slots / 2: slots - 1}; len(shards) != 2 || !maps.Equal(shared, want) {
		t.Errorf("%d shards, %v", len(shards), shared)
	}
}

func TestBusMessages(t *testing.T) {
	n, err := busMessages(infoSection{
		"cluster_stats_messages_publish_sent": "3", "cluster_stats_messages_publishshard_sent": "4", "cluster_stats_messages_ping_sent": "5",
	})
	if n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := busMessages(infoSection{"cluster_stats_messages_publish_sent": "many"}); err == nil {
		t.Error("no number is no error")
	}
}

// Each client opens a cluster, and its pairs are shared among the primaries.
func TestPlaces(t *testing.T) {
	c, err := startCluster(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	p := openPlace("cluster of 2", true, c.addrs(), c.close)
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, client := range p.contenders(false) {
		s, err := openHolder(t.Context(), client, newJob(t).setup())
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
	j := newJob(t, "--scale", "--quick", "--holds", "500", "--rounds", "1", "--duration", "500ms", "--lease", "8s", "--only", "go-redis")
	r := j.scaleRun()
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.report.primaries {
		sum := 0.0
		for _, s := range p.Shares {
			sum += s
			if s < 0.05 {
				t.Errorf("%s: a node has no part: %v", p.Place, p.Shares)
			}
		}
		if len(p.Shares) != p.Primaries || math.Abs(sum-1) > 0.01 || p.PerSecond.Median == 0 || p.BusiestNode.Median > p.RedisMicros.Median {
			t.Errorf("%+v", p)
		}
	}
	for _, m := range r.report.messages {
		if m.Sharded && m.Bus.Median > 0 || !m.Sharded && m.Bus.Median < 1 { // of 2: a window is short
			t.Errorf("sharded %t: %v messages between nodes for each pair", m.Sharded, m.Bus.Median)
		}
	}
	if k := r.report.renewals; k[2].Calls*1.25 > k[1].Calls || k[0].Calls > k[1].Calls || k[0].Lost+k[1].Lost+k[2].Lost > 0 {
		t.Errorf("calls of renewals: one server %+v, cluster %+v, in hash tags %+v", k[0], k[1], k[2])
	}
	if err := j.writeScale(r); err != nil {
		t.Error(err)
	}
	// What a channel costs is little beside the buffers that Redis frees meanwhile, so with few of them it may be below zero.
	if s := r.report.subscribers; s.ListenerBytes < 100 || s.ChannelBytes == 0 || s.MessageMicros <= 0 {
		t.Errorf("%+v", s)
	}
}
