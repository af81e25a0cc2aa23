package goredisdriver

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every switch and every lost connection
	// They mostly wait: for what does not come, and for servers to fail over.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// target is a suite target on servers that each have all pub/sub state of
// their own connections. connect makes the client under test.
func target(nodes []*redistest.Server, sharded bool, connect func() redis.UniversalClient, options ...Option) drivertest.Target {
	return drivertest.Target{
		Open: func(t testing.TB) driver.Driver { return New(opened(t, connect()), options...) },
		FlushScripts: func(t testing.TB) {
			for _, node := range nodes {
				node.Cli(t, "SCRIPT", "FLUSH")
			}
		},
		Subscribers: func(t testing.TB, channel string) int {
			count := 0
			for _, node := range nodes {
				count += subscribers(t, node, sharded, channel)
			}
			return count
		},
		KillSubscribers: func(t testing.TB) {
			for _, node := range nodes {
				node.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
		},
		Waits: func(t testing.TB) int { return redistest.CallsOf(t, nodes, "wait") },
	}
}

// replicatedTarget is a target whose primaries have so many replicas each.
func replicatedTarget(target drivertest.Target, each int, replicas []*redistest.Server) drivertest.Target {
	target.Replicas = each
	target.SuspendReplicas = redistest.Suspender(replicas)
	return target
}

// opened closes a client at the end of the test.
func opened(t testing.TB, rdb redis.UniversalClient) redis.UniversalClient {
	t.Helper()
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

func subscribers(t testing.TB, node *redistest.Server, sharded bool, channel string) int {
	t.Helper()
	what := "NUMSUB"
	if sharded {
		what = "SHARDNUMSUB"
	}
	reply := node.Cli(t, "PUBSUB", what, channel)
	count := 0
	for _, digit := range reply[len(channel):] {
		if digit >= '0' && digit <= '9' {
			count = count*10 + int(digit-'0')
		}
	}
	return count
}

// listened is a listener whose events a test awaits one by one.
type listened struct {
	driver.Listener
	events chan driver.Event
}

func listenTo(t testing.TB, d driver.Driver) listened {
	t.Helper()
	events := make(chan driver.Event, 10_000)
	l := d.Listen(func(event driver.Event) { events <- event })
	t.Cleanup(l.Close)
	return listened{l, events}
}

// await returns when an event of that kind has come on a channel.
func (l listened) await(t testing.TB, kind driver.EventKind, channel string, within time.Duration) {
	t.Helper()
	timeout := time.After(within)
	for {
		select {
		case event := <-l.events:
			if event.Kind == kind && event.Channel == channel {
				return
			}
		case <-timeout:
			t.Fatalf("no event %d on %s within %v", kind, channel, within)
		}
	}
}

var (
	incr     = driver.NewScript("incr", "return redis.call('INCR', KEYS[1])")
	announce = driver.NewScript("announce", "return redis.call(ARGV[1], ARGV[2], ARGV[3])")
)

// deliver publishes until a message arrives.
func deliver(t testing.TB, d driver.Driver, l listened, channel string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		say(t, d, channel)
		select {
		case event := <-l.events:
			if event.Kind == driver.Message && event.Channel == channel {
				return
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("no message on %s", channel)
}

// say publishes once. It may fail while servers change roles.
func say(t testing.TB, d driver.Driver, channel string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	command, err := d.PublishCommand(ctx)
	if err == nil {
		_, err = d.Eval(ctx, driver.Call{Script: announce, Keys: []string{channel}, Args: []string{command, channel, "hello"}})
	}
	if err != nil {
		t.Logf("publishing on %s: %v", channel, err)
	}
}

func eventually(t testing.TB, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("not within ten seconds")
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}
