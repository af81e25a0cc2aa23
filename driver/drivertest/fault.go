package drivertest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	// noticed is how long a listener may take to replace a silent connection.
	noticed = 20 * time.Second
	// quiet is longer than any adapter waits before it asks a silent server for a
	// sign of life, and for the answer.
	quiet = 6 * time.Second
)

func deliver(t testing.TB, d driver.Driver, r *recorder, channel string) {
	t.Helper()
	deliverWithin(t, noticed, d, r, channel)
}

// deliverWithin publishes until a message arrives. Publishing may fail while
// connections end and servers change roles.
func deliverWithin(t testing.TB, limit time.Duration, d driver.Driver, r *recorder, channel string) {
	t.Helper()
	payload := unique("delivery")
	var failure error
	within(t, limit, "a message on "+channel, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := announceOnce(ctx, d, channel, payload); err != nil && err.Error() != fmt.Sprint(failure) {
			failure = err
			t.Logf("publishing on %s: %v", channel, err)
		}
		return r.received(channel, payload)
	})
}

func testBlackHole(t *testing.T, open Open) {
	server := redistest.Start(t)
	for name, direction := range map[string]redistest.Direction{
		"both": redistest.Both, "to the server": redistest.ToServer, "to the client": redistest.ToClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			at := single(server)
			var direct atomic.Bool
			at.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if !direct.Load() {
					addr = proxy.Addr()
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			d := open(t, at)
			l, r := listenTo(t, d)
			channel := unique("hole")
			l.Subscribe(channel)
			r.awaitSubscribed(t, channel, 1)
			proxy.BlackHole(direction, true)
			direct.Store(true)
			r.subscribedWithin(t, limit, channel, 2)
			deliver(t, d, r, channel)
		})
	}
}

// testQuiet checks that a connection without messages is not given up.
func testQuiet(t *testing.T, open Open) {
	l, r := listenTo(t, open(t, single(redistest.Start(t))))
	channel := unique("quiet")
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	time.Sleep(quiet) // what is observed is that nothing happens
	if got := r.events(); got != 1 {
		t.Errorf("%d events without a message", got-1)
	}
}

func testRestart(t *testing.T, open Open) {
	server := redistest.Start(t)
	d := open(t, single(server))
	l, r := listenTo(t, d)
	before, during := unique("before"), unique("during")
	l.Subscribe(before)
	r.awaitSubscribed(t, before, 1)
	server.Kill()
	l.Subscribe(during)
	server.Restart()
	r.subscribedWithin(t, noticed, during, 1)
	deliver(t, d, r, before)
	deliver(t, d, r, during)
}

// testForbiddenChannel checks that a channel that may not be subscribed does not
// keep the others from it, also not after a reconnection.
func testForbiddenChannel(t *testing.T, open Open) {
	if !redistest.AtLeast(t, 6, 2) {
		t.Skip("rights on channels came with Redis 6.2")
	}
	server := redistest.Start(t)
	d := open(t, limited(t, server, "resetchannels", "&good*"))
	l, r := listenTo(t, d)
	l.Subscribe("bad")
	for i := range 5 {
		l.Subscribe(fmt.Sprintf("good%d", i))
	}
	for round := range 2 {
		if round > 0 {
			server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		for i := range 5 {
			deliver(t, d, r, fmt.Sprintf("good%d", i))
		}
	}
	server.Cli(t, "ACL", "SETUSER", "limited", "&bad")
	deliver(t, d, r, "bad")
}

func testSentinelFailover(t *testing.T, open Open) {
	sentinel := redistest.StartSentinel(t, 1, 3)
	d := open(t, behind(sentinel))
	l, r := listenTo(t, d)
	channel := unique("failover")
	l.Subscribe(channel)
	deliver(t, d, r, channel)
	sentinel.KillPrimary(t)
	deliver(t, d, r, channel)
}

func testClusterFailover(t *testing.T, open Open) {
	for name, command := range publishCommands {
		t.Run(name, func(t *testing.T) {
			cluster := redistest.StartCluster(t, 3, 1)
			at := clustered(cluster)
			at.PublishCommand = command
			d := open(t, at)
			l, r := listenTo(t, d)
			for i := range 10 {
				l.Subscribe(fmt.Sprint(i))
				deliver(t, d, r, fmt.Sprint(i))
			}
			old := cluster.NodeFor(t, "0")
			old.Kill()
			cluster.WaitNewNodeFor(t, "0", old)
			for i := range 10 {
				deliver(t, d, r, fmt.Sprint(i))
			}
		})
	}
}

// testDeadNode checks that channels of other nodes are not held up by one that
// does not answer.
func testDeadNode(t *testing.T, open Open) {
	needShardedPubSub(t)
	cluster := redistest.StartCluster(t, 3, 0)
	d := open(t, clustered(cluster))
	l, r := listenTo(t, d)
	dead := cluster.NodeFor(t, "0")
	var late []string
	for i := range 20 {
		channel := fmt.Sprint(i)
		l.Subscribe(channel)
		deliver(t, d, r, channel)
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
		r.subscribedWithin(t, time.Second, channel, 1)
	}
	dead.Cont()
	deliver(t, d, r, "dead0{0}")
}

// testSlotMoved checks that a channel follows its slot.
func testSlotMoved(t *testing.T, open Open) {
	needShardedPubSub(t)
	cluster := redistest.StartCluster(t, 3, 0)
	d := open(t, clustered(cluster))
	l, r := listenTo(t, d)
	moving, staying := "{moving}", "{staying}"
	for _, channel := range []string{moving, staying} {
		l.Subscribe(channel)
		deliver(t, d, r, channel)
	}
	before := r.subscriptions(moving)
	cluster.BeginMove(t, moving).Finish(t)
	r.subscribedWithin(t, noticed, moving, before+1)
	deliver(t, d, r, moving)
	deliver(t, d, r, staying)
	cluster.BeginMove(t, "{later}").Finish(t) // nobody is told: nothing in that slot is subscribed
	l.Subscribe("{later}")
	r.subscribedWithin(t, noticed, "{later}", 1)
	l.Unsubscribe(moving)
	awaitSubscribers(t, target(t, open, clustered(cluster), cluster.Nodes...), moving, 0)
}
