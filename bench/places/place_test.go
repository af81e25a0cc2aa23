package places

import (
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A cluster of two is made of two nodes that share the slots.
func TestCluster(t *testing.T) {
	c, err := StartCluster(t.Context(), t, 2)
	if err != nil {
		t.Fatal(err)
	}
	shards, err := c.Nodes[1].ClusterShards(t.Context()).Result()
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
	n, err := busMessages(Section{
		"cluster_stats_messages_publish_sent": "3", "cluster_stats_messages_publishshard_sent": "4", "cluster_stats_messages_ping_sent": "5",
	})
	if n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := busMessages(Section{"cluster_stats_messages_publish_sent": "many"}); err == nil {
		t.Error("no number is no error")
	}
}

func TestShare(t *testing.T) {
	if got := Share(2*time.Second, 8*time.Second); got != 0.25 {
		t.Errorf("%v, want 0.25", got)
	}
}
