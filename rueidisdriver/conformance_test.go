package rueidisdriver

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, option := range map[string]rueidis.ClientOption{
		"RESP3":             {},
		"RESP2":             {AlwaysRESP2: true, DisableCache: true},
		"several pipelines": {PipelineMultiplex: 2},
		"no pipelining":     {DisableAutoPipelining: true},
	} {
		option.InitAddress = []string{server.Addr()}
		t.Run(name, func(t *testing.T) {
			target := target([]*redistest.Server{server}, false, option)
			if option.AlwaysRESP2 {
				target.KillSubscribers = nil // rueidis does not reconnect, see the package comment
			}
			drivertest.Exercise(t, target)
		})
	}
}

func TestSingleSharded(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
	server := redistest.Start(t)
	drivertest.Exercise(t, target([]*redistest.Server{server}, true,
		rueidis.ClientOption{InitAddress: []string{server.Addr()}}, WithShardedPubSub(true)))
}

func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("secret"))
	drivertest.Exercise(t, target([]*redistest.Server{server}, false, rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, TLSConfig: server.TLSConfig(), Password: "secret",
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 3)
	target := target([]*redistest.Server{sentinel.Primary(t)}, false, rueidis.ClientOption{
		InitAddress: sentinel.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: sentinel.MasterName()},
	})
	drivertest.Exercise(t, replicatedTarget(target, 1, sentinel.Replicas(t)))
}

func TestReplicated(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 2)
	for name, option := range map[string]rueidis.ClientOption{
		"default":           {},
		"always pipelining": {AlwaysPipelining: true},
	} {
		option.InitAddress = []string{servers.Primary.Addr()}
		t.Run(name, func(t *testing.T) {
			target := target([]*redistest.Server{servers.Primary}, false, option)
			drivertest.Exercise(t, replicatedTarget(target, 2, servers.Replicas))
		})
	}
}

func TestReplicatedCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	primaries, replicas := cluster.Roles(t)
	option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
	sharded := redistest.AtLeast(t, 7, 0)
	// Messages that are not sharded are listened for on any node. Scripts are on
	// primaries; replicas may be suspended.
	target, scripts := target(cluster.Nodes, sharded, option), target(primaries, sharded, option)
	target.FlushScripts, target.Waits = scripts.FlushScripts, scripts.Waits
	drivertest.Exercise(t, replicatedTarget(target, 1, replicas))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
	t.Run("default", func(t *testing.T) {
		drivertest.Exercise(t, target(cluster.Nodes, redistest.AtLeast(t, 7, 0), option))
	})
	t.Run("classic", func(t *testing.T) {
		drivertest.Exercise(t, target(cluster.Nodes, false, option, WithShardedPubSub(false)))
	})
}
