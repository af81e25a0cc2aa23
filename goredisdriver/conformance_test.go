package goredisdriver

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			drivertest.Exercise(t, target([]*redistest.Server{server}, false, func() redis.UniversalClient {
				return redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol})
			}))
		})
	}
}

func TestSingleSharded(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
	server := redistest.Start(t)
	drivertest.Exercise(t, target([]*redistest.Server{server}, true, func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr()})
	}, WithShardedPubSub(true)))
}

func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("secret"))
	drivertest.Exercise(t, target([]*redistest.Server{server}, false, func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr(), TLSConfig: server.TLSConfig(), Password: "secret"})
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 3)
	target := target([]*redistest.Server{sentinel.Primary(t)}, false, func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: sentinel.MasterName(), SentinelAddrs: sentinel.Addrs(),
		})
	})
	drivertest.Exercise(t, replicatedTarget(target, 1, sentinel.Replicas(t)))
}

func TestReplicated(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 2)
	for name, options := range map[string]redis.Options{
		"default":      {},
		"no timeouts":  {ReadTimeout: -1, WriteTimeout: -1},
		"with context": {ContextTimeoutEnabled: true},
	} {
		options.Addr = servers.Primary.Addr()
		t.Run(name, func(t *testing.T) {
			target := target([]*redistest.Server{servers.Primary}, false, func() redis.UniversalClient {
				own := options // go-redis fills in what is missing
				return redis.NewClient(&own)
			})
			drivertest.Exercise(t, replicatedTarget(target, 2, servers.Replicas))
		})
	}
}

func TestReplicatedCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	primaries, replicas := cluster.Roles(t)
	target := target(primaries, redistest.AtLeast(t, 7, 0), func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	})
	drivertest.Exercise(t, replicatedTarget(target, 1, replicas))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	connect := func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	}
	t.Run("default", func(t *testing.T) {
		drivertest.Exercise(t, target(cluster.Nodes, redistest.AtLeast(t, 7, 0), connect))
	})
	t.Run("classic", func(t *testing.T) {
		drivertest.Exercise(t, target(cluster.Nodes, false, connect, WithShardedPubSub(false)))
	})
	t.Run("embedded", func(t *testing.T) {
		type wrapper struct{ *redis.ClusterClient }
		rdb := opened(t, wrapper{connect().(*redis.ClusterClient)})
		if d := New(rdb); !d.Slotted() {
			t.Error("a wrapper of a cluster client is not recognised")
		}
	})
}
