package topology

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A firewall forgets the connections, those that listen for messages included, while new ones reach the servers: holds and
// waiters live on. What adapters make of idle connections, and of an address that moves, is tested in package drivertest.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	s, c := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	for shape, servers := range map[string][]*redistest.Server{"single": {s}, "cluster": c.Nodes} {
		var addrs []string
		for _, s := range servers {
			addrs = append(addrs, s.Addr())
		}
		for client := range 2 {
			firewall := redistest.NewFirewall(t, servers...)
			p := []*kit.Platform{
				kit.GoRedis(shape, redis.UniversalOptions{Addrs: addrs, Dialer: firewall.Dial}, nil),
				kit.RueidisAt(shape, rueidis.ClientOption{
					InitAddress: addrs,
					DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
						return firewall.Dial(ctx, "tcp", addr)
					},
				}, nil),
			}[client]
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				defer firewall.Cut() // go-redis does not close a client that reads from a silent connection
				outlive(t, p, firewall)
			})
		}
	}
}

// outlive has a lock held and waited for while the connections are forgotten. The hold is renewed, another lock can be had,
// and the waiter gets the lock.
func outlive(t *testing.T, p *kit.Platform, firewall *redistest.Firewall) {
	t.Helper()
	const lease = 12 * time.Second
	name, waiting := kit.Fresh(), make(chan struct{})
	c := p.Client(t, holdfast.WithLease(lease), holdfast.WithTimeout(9*time.Second)) // an attempt may take 3 s
	held := kit.Must(t)(c.NewMutex(name).Lock(background))
	waited := waits(p.Client(t, holdfast.WithLease(lease), holdfast.WithHooks(holdfast.Hooks{
		OnWait: func(context.Context, holdfast.Event) { close(waiting) },
	})).NewMutex(name))
	select {
	case <-waiting:
	case err := <-waited:
		t.Fatalf("the waiter does not wait: %v", err)
	}
	firewall.Forget()
	kit.Unlock(t, kit.Must(t)(c.NewMutex(kit.Fresh()).TryLock(background)))
	time.Sleep(lease + 6*time.Second) // what is observed is that nothing happens
	kit.OK(t, context.Cause(held.Context()))
	kit.Unlock(t, held)
	kit.OK(t, <-waited)
}
