package goredisdriver

import (
	"cmp"
	"context"
	"errors"
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
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// A client that has found its server away leaves this one asleep for a second.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		// What is being dialled, or asks a silent sentinel, ends by the client's timeouts.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).dialConn"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*sentinelFailover).MasterAddr.func1"),
		// What is being dialled while its client is closed finds a sentinel all the same, to which go-redis listens for good.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*sentinelFailover).listen"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*channel).initHealthCheck.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*channel).initMsgChan.func1"))
}

// with opens drivers on clients that are made with some more options.
func with(change func(*redis.UniversalOptions)) drivertest.Open {
	return func(t testing.TB, at drivertest.Endpoint) driver.Driver {
		options := universal(at)
		change(options)
		return open(t, redis.NewUniversalClient(options), at)
	}
}

func universal(at drivertest.Endpoint) *redis.UniversalOptions {
	options := &redis.UniversalOptions{
		Addrs: at.Addrs, MasterName: at.MasterName, IsClusterMode: at.Cluster,
		Username: at.Username, Password: at.Password, TLSConfig: at.TLS,
		// As rueidis has it. By default it is 3 s, for which a busy machine may be silent.
		Dialer: at.Dial, ReadTimeout: cmp.Or(at.ReplyTimeout, 10*time.Second),
		PoolSize: at.PoolSize,
	}
	if at.MasterName != "" { // as the package comment advises
		options.MaxRetries, options.DialTimeout = -1, 2*at.ReplyTimeout
	}
	return options
}

func open(t testing.TB, rdb redis.UniversalClient, at drivertest.Endpoint) *Driver {
	t.Helper()
	closeLater(t, rdb)
	if at.PublishCommand == "" {
		return New(rdb)
	}
	return New(rdb, WithShardedPubSub(at.PublishCommand == spublish))
}

// closeLater closes a client at the end of the test.
func closeLater[C redis.UniversalClient](t testing.TB, rdb C) C {
	t.Helper()
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

func TestServers(t *testing.T) {
	t.Parallel()
	drivertest.ExerciseServers(t, with(func(*redis.UniversalOptions) {}))
}

func TestClientOptions(t *testing.T) {
	t.Parallel()
	t.Run("RESP2", func(t *testing.T) {
		t.Parallel()
		drivertest.Exercise(t, drivertest.SingleTarget(t, with(func(o *redis.UniversalOptions) { o.Protocol = 2 })))
	})
	for name, change := range map[string]func(*redis.UniversalOptions){
		"no timeouts":  func(o *redis.UniversalOptions) { o.ReadTimeout, o.WriteTimeout = -1, -1 },
		"with context": func(o *redis.UniversalOptions) { o.ContextTimeoutEnabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Exercise(t, drivertest.ReplicatedTarget(t, with(change)))
		})
	}
	t.Run("no routing policies", func(t *testing.T) {
		t.Parallel()
		drivertest.CheckOnceOnCluster(t, func(t testing.TB, at drivertest.Endpoint) driver.Driver {
			options := universal(at).Cluster()
			options.DisableRoutingPolicies = true
			return open(t, redis.NewClusterClient(options), at)
		})
	})
}

func TestWrappedCluster(t *testing.T) {
	type wrapper struct{ *redis.ClusterClient }
	rdb := closeLater(t, wrapper{redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})})
	if d := New(rdb); !d.Slotted() {
		t.Error("a wrapper of a cluster client is not recognised")
	}
}

// A client for clusters to which one server has all slots, as one of NewFailoverClusterClient is, announces
// releases as a client of that server does.
func TestClusterClientOfOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	slots := []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: server.Addr()}}}}
	rdb := closeLater(t, redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
	}))
	if command, err := New(rdb).PublishCommand(t.Context()); command != publish || err != nil {
		t.Errorf("it is %s, %v", command, err)
	}
	away := errors.New("away")
	rdb = closeLater(t, redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, away },
	}))
	d := New(rdb)
	if command, err := d.PublishCommand(t.Context()); !errors.Is(err, away) {
		t.Errorf("it is %s, %v, though nobody knows the server", command, err)
	}
	away = nil
	if command, err := d.PublishCommand(t.Context()); command != publish || err != nil {
		t.Errorf("it is %s, %v", command, err)
	}
}
