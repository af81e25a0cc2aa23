package rueidisdriver

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// eventCounts counts the events of channels. It is filled before it counts.
type eventCounts map[string]*struct{ subscribed, messages atomic.Int32 }

func (c eventCounts) sink(event driver.Event) {
	switch count := c[event.Channel]; event.Kind {
	case driver.Subscribed:
		count.subscribed.Add(1)
	case driver.Message:
		count.messages.Add(1)
	}
}

// await waits until every channel has had so many of both events.
func (c eventCounts) await(t *testing.T, what string, subscribed, messages int32) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for channel, count := range c {
		for count.subscribed.Load() < subscribed || count.messages.Load() < messages {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s has had %d confirmations and %d messages", what, channel, count.subscribed.Load(), count.messages.Load())
			}
			time.Sleep(2 * time.Millisecond) // between two looks
		}
	}
}

// heap returns the number of bytes in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}

// TestManyChannels checks that channels cost no goroutines and little memory, and that
// none is forgotten. It is not parallel, since it counts.
func TestManyChannels(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		testManyChannels(t, drivertest.Endpoint{Addrs: []string{server.Addr()}}, server)
	})
	t.Run("cluster", func(t *testing.T) {
		if !redistest.AtLeast(t, 7, 0) {
			t.Skip("sharded messages came with Redis 7.0")
		}
		cluster := redistest.StartCluster(t, 3, 0)
		testManyChannels(t, drivertest.Endpoint{Addrs: cluster.Addrs(), Cluster: true}, cluster.Nodes...)
	})
}

func testManyChannels(t *testing.T, at drivertest.Endpoint, servers ...*redistest.Server) {
	const n = 10_000
	counts := make(eventCounts, n)
	channels := make([]string, n)
	for i := range channels {
		channels[i] = fmt.Sprintf("redisson_lock__channel:{many-%d}", i)
		counts[channels[i]] = new(struct{ subscribed, messages atomic.Int32 })
	}
	d := New(connectTo(t, at, rueidis.ClientOption{}))
	l := d.Listen(counts.sink)
	t.Cleanup(l.Close)
	subscribe := func(channels ...string) {
		for _, channel := range channels {
			l.Subscribe(channel)
		}
	}
	subscribe(channels[:100]...) // each server has some
	first := make(eventCounts)
	for _, channel := range channels[:100] {
		first[channel] = counts[channel]
	}
	first.await(t, "the first", 1, 0)
	for i := range 100 {
		publishTo(t, d, fmt.Sprint("makes the connections that publish", i))
	}
	goroutines, bytes := runtime.NumGoroutine(), heap()
	subscribe(channels[100:]...)
	counts.await(t, "all", 1, 0)
	if more := runtime.NumGoroutine() - goroutines; more > 20 {
		t.Errorf("%d more goroutines", more)
	}
	if each := (heap() - bytes) / (n - 100); each > 300 {
		t.Errorf("%d bytes a channel", each)
	} else {
		t.Logf("%d bytes a channel", each)
	}
	for _, server := range servers {
		server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
	counts.await(t, "after the connection was lost", 2, 0)
	for _, channel := range channels {
		publishTo(t, d, channel)
	}
	counts.await(t, "messages", 2, 1)
	for channel, count := range counts {
		if count.messages.Load() != 1 {
			t.Errorf("%d messages on %s", count.messages.Load(), channel)
		}
	}
	if bytes := (heap() - bytes) / (n - 100); bytes > 300 {
		t.Errorf("%d bytes a channel after the connection was lost", bytes)
	} else {
		t.Logf("%d bytes a channel after the connection was lost", bytes)
	}
	for _, channel := range channels {
		l.Unsubscribe(channel)
	}
	eventually(t, "all forgotten", func() bool { return subscriptions(l) == 0 })
}

// subscriptions returns how many a listener keeps.
func subscriptions(l driver.Listener) int {
	kept := l.(*listener)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return len(kept.subscriptions)
}

var announcement = driver.NewScript("publish", "return redis.call(ARGV[1], KEYS[1], 'message')")

func publishTo(t *testing.T, d *Driver, channel string) {
	t.Helper()
	command, err := d.PublishCommand(t.Context())
	if err == nil {
		_, err = d.Eval(t.Context(), driver.Call{Script: announcement, Keys: []string{channel}, Args: []string{command}})
	}
	if err != nil {
		t.Fatal(err)
	}
}
