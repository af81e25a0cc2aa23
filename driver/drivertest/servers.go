package drivertest

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Endpoint says which servers a client connects to, and how. What is left zero is
// up to the client.
type Endpoint struct {
	// Addrs are the addresses, as host:port, of one server, of the Sentinels if
	// MasterName is set, or of the nodes if Cluster is.
	Addrs      []string
	MasterName string
	Cluster    bool

	Username, Password string
	TLS                *tls.Config

	// Dial replaces the client's own way to connect. It is never set together
	// with TLS.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// ReplyTimeout is how long the client waits for a reply.
	ReplyTimeout time.Duration

	// PoolSize is how many connections the client may have, beside those that calls share.
	PoolSize int

	// PublishCommand is what the driver's PublishCommand is to return, by way of
	// the adapter's option.
	PublishCommand string
}

// Open returns a driver on a new client of the endpoint, and closes that client
// in a cleanup.
type Open func(t testing.TB, at Endpoint) driver.Driver

// ExerciseServers runs everything in this package against an adapter with one
// configuration of its client. The package comment says what it needs.
func ExerciseServers(t *testing.T, open Open) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"Single", func(t *testing.T, open Open) { Exercise(t, SingleTarget(t, open)) }},
		{"Sharded", testSharded},
		{"TLSAndPassword", testTLSAndPassword},
		{"Sentinel", testSentinel},
		{"Replicated", func(t *testing.T, open Open) { Exercise(t, ReplicatedTarget(t, open)) }},
		{"Cluster", testCluster},
		{"ReplicatedCluster", testReplicatedCluster},
		{"Eval/Refused", testRefused},
		{"Eval/GivenUp", testGivenUp},
		{"Eval/Unloaded", testUnloaded},
		{"Eval/UnloadedOnCluster", testUnloadedOnCluster},
		{"Eval/Torn", testTorn},
		{"Eval/Forgotten", testForgotten},
		{"Eval/ForgottenOnCluster", testForgottenOnCluster},
		{"Eval/AddressMoved", testAddressMoved},
		{"Eval/RefusedThenNew", testRefusedThenNew},
		{"Eval/Doubt", testDoubt},
		{"Eval/SilentFailover", testSilentFailover},
		{"Eval/SilentSentinel", testSilentSentinel},
		{"Eval/MovingSlot", testMovingSlot},
		{"Eval/Once", CheckOnce},
		{"Eval/OnceOnCluster", CheckOnceOnCluster},
		{"EvalReplicated/Once", testReplicatedOnce},
		{"EvalReplicated/OnceOnCluster", testReplicatedOnceOnCluster},
		{"EvalReplicated/ReplyTimeout", testReplyTimeout},
		{"EvalReplicated/ForbiddenWait", testForbiddenWait},
		{"EvalReplicated/Redirected", func(t *testing.T, open Open) { CheckRedirected(t, open, 1) }},
		{"Listen/BlackHole", testBlackHole},
		{"Listen/Quiet", testQuiet},
		{"Listen/HalfAnswered", testHalfAnswered},
		{"Listen/DeliveredFirst", testDeliveredFirst},
		{"Listen/CloseDialling", testCloseDialling},
		{"Listen/CloseSilent", testCloseSilent},
		{"Listen/Restart", testRestart},
		{"Listen/ForbiddenChannel", testForbiddenChannel},
		{"Listen/SentinelFailover", testSentinelFailover},
		{"Listen/ClusterFailover", testClusterFailover},
		{"Listen/DeadNode", testDeadNode},
		{"Listen/SlotMoved", testSlotMoved},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

// SingleTarget starts a server for [Exercise].
func SingleTarget(t testing.TB, open Open) Target {
	t.Helper()
	server := redistest.Start(t)
	return target(t, open, single(server), server)
}

// ReplicatedTarget starts a primary with two replicas for [Exercise].
func ReplicatedTarget(t testing.TB, open Open) Target {
	t.Helper()
	servers := redistest.StartReplicated(t, 2)
	return target(t, open, single(servers.Primary), servers.Primary).withReplicas(2, servers.Replicas)
}

func testSharded(t *testing.T, open Open) {
	needShardedPubSub(t)
	server := redistest.Start(t)
	at := single(server)
	at.PublishCommand = "SPUBLISH"
	Exercise(t, target(t, open, at, server))
}

func testTLSAndPassword(t *testing.T, open Open) {
	server := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("secret"))
	at := single(server)
	at.TLS, at.Password = server.TLSConfig(), "secret"
	Exercise(t, target(t, open, at, server))
}

func testSentinel(t *testing.T, open Open) {
	sentinel := redistest.StartSentinel(t, 1, 3)
	target := target(t, open, behind(sentinel), sentinel.Primary(t))
	Exercise(t, target.withReplicas(1, sentinel.Replicas(t)))
}

// publishCommands are what a cluster is tested with: what the driver finds out, and
// the command of before Redis 7.0.
var publishCommands = map[string]string{"default": "", "classic": "PUBLISH"}

func testCluster(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 0)
	for name, command := range publishCommands {
		at := clustered(cluster)
		at.PublishCommand = command
		t.Run(name, func(t *testing.T) { Exercise(t, target(t, open, at, cluster.Nodes...)) })
	}
}

func testReplicatedCluster(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 1)
	primaries, replicas := cluster.Roles(t)
	at := clustered(cluster)
	// Messages that are not sharded are listened for on any node. Scripts are on
	// primaries; replicas may be suspended.
	scripts, target := target(t, open, at, primaries...), target(t, open, at, cluster.Nodes...)
	target.FlushScripts, target.Waits = scripts.FlushScripts, scripts.Waits
	Exercise(t, target.withReplicas(1, replicas))
}

func single(server *redistest.Server) Endpoint {
	return Endpoint{Addrs: []string{server.Addr()}}
}

func behind(sentinel *redistest.Sentinel) Endpoint {
	return Endpoint{Addrs: sentinel.Addrs(), MasterName: sentinel.MasterName()}
}

func clustered(cluster *redistest.Cluster) Endpoint {
	return Endpoint{Addrs: cluster.Addrs(), Cluster: true}
}

// through leads the connections to one server through a proxy.
func (at Endpoint) through(server *redistest.Server, proxy *redistest.Proxy) Endpoint {
	at.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == server.Addr() {
			addr = proxy.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return at
}

func needShardedPubSub(t testing.TB) {
	t.Helper()
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
}

// target is a target on nodes that each know the subscribers connected to
// themselves.
func target(t testing.TB, open Open, at Endpoint, nodes ...*redistest.Server) Target {
	t.Helper()
	count := "NUMSUB"
	if at.PublishCommand == "SPUBLISH" || at.PublishCommand == "" && at.Cluster && redistest.AtLeast(t, 7, 0) {
		count = "SHARDNUMSUB"
	}
	return Target{
		Open: func(t testing.TB) driver.Driver { return open(t, at) },
		FlushScripts: func(t testing.TB) {
			for _, node := range nodes {
				node.Cli(t, "SCRIPT", "FLUSH")
			}
		},
		Subscribers: func(t testing.TB, channel string) int {
			total := 0
			for _, node := range nodes {
				total += subscribers(t, node, count, channel)
			}
			return total
		},
		KillSubscribers: func(t testing.TB) {
			for _, node := range nodes {
				node.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
		},
		Waits: func(t testing.TB) int { return redistest.CallsOf(t, nodes, "wait") },
	}
}

// withReplicas adds the replicas, of which each primary has so many.
func (target Target) withReplicas(each int, replicas []*redistest.Server) Target {
	target.Replicas, target.SuspendReplicas = each, redistest.Suspender(replicas)
	return target
}

// subscribers asks one node with NUMSUB or SHARDNUMSUB.
func subscribers(t testing.TB, node *redistest.Server, count, channel string) int {
	t.Helper()
	reply := node.Cli(t, "PUBSUB", count, channel)
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(reply, channel)))
	if err != nil {
		t.Fatalf("PUBSUB %s: %v", count, err)
	}
	return n
}
