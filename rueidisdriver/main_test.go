package rueidisdriver

import (
	"context"
	"crypto/tls"
	"flag"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestMain(m *testing.M) {
	spareIdle = 100 * time.Millisecond // so that none is left in the end
	// They mostly wait: for what does not come, and for servers to fail over.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// What rueidis does later outlives its Close: it looks up the nodes of a
	// cluster after a second, closes connections to old ones after five, and
	// goes on to dial a Sentinel that does not answer.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*sentinelClient).refreshRetry"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}

// with opens drivers on clients that have some options, and what the endpoint
// says.
func with(option rueidis.ClientOption) drivertest.Open {
	return func(t testing.TB, at drivertest.Endpoint) driver.Driver {
		client := connectTo(t, at, option)
		if at.PublishCommand == "" {
			return New(client)
		}
		return New(client, WithShardedPubSub(at.PublishCommand == spublish))
	}
}

func connectTo(t testing.TB, at drivertest.Endpoint, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	option.InitAddress, option.Sentinel.MasterSet = at.Addrs, at.MasterName
	option.Username, option.Password, option.TLSConfig = at.Username, at.Password, at.TLS
	option.ConnWriteTimeout, option.BlockingPoolSize = at.ReplyTimeout, at.PoolSize
	if at.Dial != nil {
		option.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return at.Dial(ctx, "tcp", addr)
		}
	}
	return connect(t, option)
}

// connect returns a client that is closed at the end of the test.
func connect(t testing.TB, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestServers(t *testing.T) {
	t.Parallel()
	drivertest.ExerciseServers(t, with(rueidis.ClientOption{}))
}

func TestClientOptions(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]rueidis.ClientOption{
		"RESP2":             {AlwaysRESP2: true, DisableCache: true},
		"several pipelines": {PipelineMultiplex: 2},
		"no pipelining":     {DisableAutoPipelining: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Exercise(t, drivertest.SingleTarget(t, with(option)))
		})
	}
	t.Run("always pipelining", func(t *testing.T) {
		t.Parallel()
		drivertest.Exercise(t, drivertest.ReplicatedTarget(t, with(rueidis.ClientOption{AlwaysPipelining: true})))
	})
	t.Run("no pipelining, lost replies", func(t *testing.T) {
		t.Parallel()
		drivertest.CheckOnce(t, with(rueidis.ClientOption{DisableAutoPipelining: true}))
	})
}

// blind is a cluster client that does not know its nodes.
type blind struct{ rueidis.Client }

func (blind) Nodes() map[string]rueidis.Client { return nil }

func TestRedirectedToUnknownNode(t *testing.T) {
	t.Parallel()
	drivertest.CheckRedirected(t, func(t testing.TB, at drivertest.Endpoint) driver.Driver {
		return New(blind{connectTo(t, at, rueidis.ClientOption{})})
	}, 0)
}
