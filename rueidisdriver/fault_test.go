package rueidisdriver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// noticed is how long a subscriber may take to replace a silent connection.
const noticed = 20 * time.Second

func TestBlackHole(t *testing.T) {
	server := redistest.Start(t)
	for name, direction := range map[string]redistest.Direction{
		"both": redistest.Both, "to the server": redistest.ToServer, "to the client": redistest.ToClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			// Connections lead into the hole while it is open.
			var hole atomic.Bool
			hole.Store(true)
			d := New(connect(t, rueidis.ClientOption{
				InitAddress: []string{server.Addr()}, ConnWriteTimeout: 2 * time.Second,
				DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
					if hole.Load() {
						addr = proxy.Addr()
					}
					return dialer.DialContext(ctx, "tcp", addr)
				},
			}))
			l := listenTo(t, d)
			l.Subscribe(name)
			l.await(t, driver.Subscribed, name, noticed)
			proxy.BlackHole(direction, true)
			hole.Store(false)
			l.await(t, driver.Subscribed, name, noticed)
			deliver(t, d, l, name)
		})
	}
}

func TestRestart(t *testing.T) {
	server := redistest.Start(t)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}}))
	l := listenTo(t, d)
	l.Subscribe("before")
	l.await(t, driver.Subscribed, "before", noticed)
	server.Kill()
	l.Subscribe("while down")
	server.Restart()
	l.await(t, driver.Subscribed, "while down", noticed)
	deliver(t, d, l, "before")
	deliver(t, d, l, "while down")
}

// TestForbiddenChannel checks that a channel that may not be subscribed does
// not keep the others from it, also not after a reconnection.
func TestForbiddenChannel(t *testing.T) {
	if !redistest.AtLeast(t, 6, 2) {
		t.Skip("rights on channels came with Redis 6.2")
	}
	server := redistest.Start(t)
	server.Cli(t, "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "resetchannels", "&good*")
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "limited", Password: "pw"}))
	l := listenTo(t, d)
	l.Subscribe("bad")
	for i := range 5 {
		l.Subscribe(fmt.Sprintf("good%d", i))
	}
	for round := range 2 {
		if round > 0 {
			server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		for i := range 5 {
			deliver(t, d, l, fmt.Sprintf("good%d", i))
		}
	}
	server.Cli(t, "ACL", "SETUSER", "limited", "&bad")
	deliver(t, d, l, "bad")
}

func TestSentinelFailover(t *testing.T) {
	sentinel := redistest.StartSentinel(t, 1, 3)
	d := New(connect(t, rueidis.ClientOption{
		InitAddress: sentinel.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: sentinel.MasterName()},
	}))
	l := listenTo(t, d)
	l.Subscribe("channel")
	deliver(t, d, l, "channel")
	sentinel.KillPrimary(t)
	deliver(t, d, l, "channel")
}

func TestClusterFailover(t *testing.T) {
	for name, options := range map[string][]Option{"default": nil, "classic": {WithShardedPubSub(false)}} {
		t.Run(name, func(t *testing.T) {
			cluster := redistest.StartCluster(t, 3, 1)
			d := New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}), options...)
			l := listenTo(t, d)
			for i := range 10 {
				l.Subscribe(fmt.Sprint(i))
				deliver(t, d, l, fmt.Sprint(i))
			}
			old := cluster.NodeFor(t, "0")
			old.Kill()
			cluster.WaitNewNodeFor(t, "0", old)
			for i := range 10 {
				deliver(t, d, l, fmt.Sprint(i))
			}
		})
	}
}

// TestDeadNode checks that channels of other nodes are not held up by one that
// does not answer.
func TestDeadNode(t *testing.T) {
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
	cluster := redistest.StartCluster(t, 3, 0)
	d := New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
	l := listenTo(t, d)
	dead := cluster.NodeFor(t, "0")
	var late []string
	for i := range 20 {
		channel := fmt.Sprint(i)
		l.Subscribe(channel)
		deliver(t, d, l, channel)
		if cluster.NodeFor(t, "late"+channel) != dead {
			late = append(late, "late"+channel)
		}
	}
	dead.Stop()
	for i := range 20 {
		l.Subscribe(fmt.Sprintf("dead%d{0}", i))
	}
	for _, channel := range late {
		l.Subscribe(channel)
		l.await(t, driver.Subscribed, channel, time.Second)
	}
	dead.Cont()
	deliver(t, d, l, "dead0{0}")
}

// TestSlotMoved checks that a channel follows its slot.
func TestSlotMoved(t *testing.T) {
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
	cluster := redistest.StartCluster(t, 3, 0)
	d := New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
	l := listenTo(t, d)
	for _, channel := range []string{"{moving}", "{staying}"} {
		l.Subscribe(channel)
		deliver(t, d, l, channel)
	}
	moveSlot(t, cluster, "{moving}")
	l.await(t, driver.Subscribed, "{moving}", noticed)
	deliver(t, d, l, "{moving}")
	deliver(t, d, l, "{staying}")
	l.Unsubscribe("{moving}")
	for _, node := range cluster.Nodes {
		eventually(t, func() bool { return subscribers(t, node, true, "{moving}") == 0 })
	}
}

// moveSlot gives the slot of a key, which must be empty, to another node.
func moveSlot(t testing.TB, cluster *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	// Only a node that imports a slot gets the better of what is still said about
	// the slot's owner before.
	to := migrateSlot(t, cluster, key)
	slot, id := to.Cli(t, "CLUSTER", "KEYSLOT", key), to.Cli(t, "CLUSTER", "MYID")
	to.Cli(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	primaries, _ := cluster.Roles(t)
	for _, node := range primaries {
		node.Cli(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	return to
}

// migrateSlot begins to give the slot of a key, which must be empty, to another
// node.
func migrateSlot(t testing.TB, cluster *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	from := cluster.NodeFor(t, key)
	primaries, _ := cluster.Roles(t)
	to := primaries[0]
	if to == from {
		to = primaries[1]
	}
	slot := from.Cli(t, "CLUSTER", "KEYSLOT", key)
	to.Cli(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Cli(t, "CLUSTER", "MYID"))
	from.Cli(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Cli(t, "CLUSTER", "MYID"))
	return to
}
