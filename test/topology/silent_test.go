package topology

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rueidisdriver"
	"github.com/holdfast-go/holdfast/test/kit"
	"github.com/holdfast-go/holdfast/valkeydriver"
)

type dial func(ctx context.Context, network, addr string) (net.Conn, error)

// dialled are drivers of each adapter whose connections to one server are made by dial.
var dialled = map[string]func(t *testing.T, addr string, dial dial) driver.Driver{
	"go-redis": func(t *testing.T, addr string, dial dial) driver.Driver {
		t.Helper()
		rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: dial})
		t.Cleanup(func() { kit.OK(t, rdb.Close()) })
		return goredisdriver.New(rdb)
	},
	"rueidis": func(t *testing.T, addr string, dial dial) driver.Driver {
		t.Helper()
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			},
		})
		kit.OK(t, err)
		t.Cleanup(client.Close)
		return rueidisdriver.New(client)
	},
	"valkey-go": func(t *testing.T, addr string, dial dial) driver.Driver {
		t.Helper()
		client, err := valkey.NewClient(valkey.ClientOption{
			InitAddress: []string{addr},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			},
		})
		kit.OK(t, err)
		t.Cleanup(client.Close)
		return valkeydriver.New(client)
	},
}

// Connections fall silent while nothing is called, and then the client is closed. Close leaves nothing where new connections work; else
// it says what it leaves.
func TestCloseAfterSilence(t *testing.T) {
	t.Parallel()
	for adapter, open := range dialled {
		for name, newOnesWork := range map[string]bool{"new connections work": true, "all are silent": false} {
			t.Run(adapter+", "+name, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				proxy, firewall := redistest.NewProxy(t, s.Addr()), redistest.NewFirewall(t, s)
				through := dial(firewall.Dial)
				if !newOnesWork {
					through = func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, proxy.Addr())
					}
				}
				c, err := holdfast.New(open(t, s.Addr(), through))
				kit.OK(t, err)
				kit.Unlock(t, kit.Must(t)(c.NewMutex(kit.Fresh()).Lock(background)))
				hash := "holdfast_client:" + c.ID()[:18]
				kit.WaitFor(t, "the client says who it is", func() bool { return s.Cli(t, "EXISTS", hash) == "1" })
				firewall.Forget()
				proxy.BlackHole(redistest.Both, true)
				defer firewall.Cut() // go-redis does not close a client that reads from a silent connection
				defer proxy.Cut()
				err = c.Close()
				left := s.Cli(t, "EXISTS", hash) == "1"
				if newOnesWork && (err != nil || left) {
					t.Errorf("the hash is left: %t; Close: %v", left, err)
				}
				if !newOnesWork && (!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), hash) || !strings.Contains(err.Error(), "expires within ")) {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
}
