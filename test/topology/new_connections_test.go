package topology

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Connections that are dead, or lead to the wrong server, while new ones reach the primary: holds and waiters live on.

// dialling returns both adapters, whose connections are made in one way.
func dialling(dial func(ctx context.Context, network, addr string) (net.Conn, error), servers ...*redistest.Server) []*kit.Platform {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return []*kit.Platform{
		kit.GoRedis("dialling", redis.UniversalOptions{Addrs: addrs, PoolSize: 128, Dialer: dial}, nil),
		kit.RueidisAt("dialling", rueidis.ClientOption{
			InitAddress: addrs,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			},
		}, nil),
	}
}

// TestForgottenConnections: a firewall forgets the connections, those that listen for messages and those that nobody uses included.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	s, c := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	for shape, servers := range map[string][]*redistest.Server{"single": {s}, "cluster": c.Nodes} {
		for i := range 2 {
			firewall := redistest.NewFirewall(t, servers...)
			p := dialling(firewall.Dial, servers...)[i]
			t.Run(p.Name+" "+shape, func(t *testing.T) {
				t.Parallel()
				defer firewall.Cut() // go-redis does not close a client that reads from a silent connection
				outlive(t, p, func(string) { firewall.Forget() })
			})
		}
	}
}

// TestAddressMoves: an address leads to a promoted replica, and the old primary keeps its connections as a replica.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"go-redis", "rueidis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := redistest.StartReplicated(t, 1)
			old, promoted := servers.Primary, servers.Replicas[0]
			var addr atomic.Pointer[string]
			first, then := old.Addr(), promoted.Addr()
			addr.Store(&first)
			p := dialling(func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, *addr.Load())
			}, promoted)[i]
			outlive(t, p, func(name string) {
				kit.WaitFor(t, "the replica to have the lock", func() bool { return promoted.Cli(t, "EXISTS", name) == "1" })
				host, port, _ := net.SplitHostPort(then)
				promoted.Cli(t, "REPLICAOF", "NO", "ONE")
				old.Cli(t, "REPLICAOF", host, port)
				addr.Store(&then)
			})
		})
	}
}

// outlive has a lock held and waited for while the connections are spoiled. The hold is renewed, another lock can be had,
// and the waiter gets the lock.
func outlive(t *testing.T, p *kit.Platform, spoil func(name string)) {
	t.Helper()
	const lease = 6 * time.Second
	d, name := p.Open(t), kit.Fresh()
	leaveIdle(t, d, name, 30)
	c, err := testclient.New(d, holdfast.WithLease(lease))
	kit.OK(t, err)
	defer func() { kit.OK(t, c.Close()) }()
	held := kit.Must(t)(c.NewMutex(name).Lock(background))
	waiting := make(chan struct{})
	waiter := p.Client(t, holdfast.WithLease(lease), holdfast.WithHooks(holdfast.Hooks{
		OnWait: func(context.Context, holdfast.Event) { close(waiting) },
	}))
	waited := waits(waiter.NewMutex(name))
	<-waiting
	spoil(name)
	kit.Unlock(t, kit.Must(t)(c.NewMutex(kit.Fresh()).TryLock(background)))
	time.Sleep(2 * lease) // what is observed is that nothing happens
	kit.OK(t, context.Cause(held.Context()))
	kit.Unlock(t, held)
	kit.OK(t, <-waited)
}

// leaveIdle has the client of a driver have so many connections that nobody uses, to the server of a key: a call that waits
// for replicas has one to itself.
func leaveIdle(t *testing.T, d driver.Driver, key string, n int) {
	t.Helper()
	call := driver.Call{Script: driver.NewScript("touch", "return redis.call('EXISTS', KEYS[1])"), Keys: []string{key}}
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			if _, _, err := d.EvalReplicated(background, call, 10, 300*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}
