package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// Platform is a server, or several, as one adapter reaches it.
type Platform struct {
	Name    string
	Sharded bool // releases are announced with SPUBLISH
	// Open returns a driver with a connection of its own.
	Open func(t *testing.T) driver.Driver
	// Do executes a command where the key lives, and returns the reply's lines.
	Do func(t *testing.T, key string, args ...string) []string
	// Dead reports whether the test has killed the server. Then Close may say that
	// nobody has answered. nil: it never is.
	Dead func() bool
}

// Client returns a client on a driver of its own.
func (p *Platform) Client(t *testing.T, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	c, err := testclient.New(p.Open(t), options...)
	OK(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && (p.Dead == nil || !p.Dead() || !errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// CLI is a [Platform.Do] on a server that holds every key.
func CLI(s *redistest.Server) func(*testing.T, string, ...string) []string {
	return func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return Lines(s.Cli(t, args...))
	}
}

// OnCluster is a [Platform.Do] on a cluster. What is asked about connections is asked
// of every node: messages that are not sharded may be listened for on any.
func OnCluster(s *redistest.Cluster) func(*testing.T, string, ...string) []string {
	return func(t *testing.T, key string, args ...string) (all []string) {
		t.Helper()
		nodes := s.Nodes
		if args[0] != "PUBSUB" && args[0] != "CLIENT" {
			nodes = []*redistest.Server{s.NodeFor(t, key)}
		}
		for _, node := range nodes {
			all = append(all, Lines(node.Cli(t, args...))...)
		}
		return all
	}
}

// Direct is [CLI] on one connection. A text is one element, whatever lines it has.
func Direct(t *testing.T, s *redistest.Server) func(*testing.T, string, ...string) []string {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = rdb.Close() })
	return func(t *testing.T, _ string, args ...string) (all []string) {
		t.Helper()
		command := make([]any, len(args))
		for i, arg := range args {
			command[i] = arg
		}
		reply, err := rdb.Do(background, command...).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		OK(t, err)
		items, several := reply.([]any)
		if !several {
			items = []any{reply}
		}
		for _, item := range items {
			all = append(all, fmt.Sprint(item))
		}
		return all
	}
}

// Lines are those of a text; none if it is empty.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// GoRedis reaches servers through go-redis. The options are those of a
// UniversalClient, which decides by them what kind of client it is.
func GoRedis(name string, options redis.UniversalOptions, do func(*testing.T, string, ...string) []string) *Platform {
	return &Platform{Name: name + "/go-redis", Do: do, Open: func(t *testing.T) driver.Driver {
		t.Helper()
		rdb := redis.NewUniversalClient(&options)
		t.Cleanup(func() {
			if err := rdb.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
				t.Errorf("go-redis: %v", err)
			}
		})
		return goredisdriver.New(rdb)
	}}
}

// Both are what has these addresses, as both adapters reach it.
func Both(name string, addrs []string, do func(*testing.T, string, ...string) []string) []*Platform {
	return []*Platform{
		GoRedis(name, redis.UniversalOptions{Addrs: addrs}, do),
		RueidisAt(name, rueidis.ClientOption{InitAddress: addrs}, do),
	}
}

// RueidisAt reaches servers through rueidis.
func RueidisAt(name string, option rueidis.ClientOption, do func(*testing.T, string, ...string) []string) *Platform {
	return &Platform{Name: name + "/rueidis", Do: do, Open: func(t *testing.T) driver.Driver {
		t.Helper()
		client, err := rueidis.NewClient(option)
		// A busy machine may be too slow for Dialer.Timeout or ConnWriteTimeout, which bound connecting, too.
		for i := 0; i < 5 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)); i++ {
			client, err = rueidis.NewClient(option)
		}
		OK(t, err)
		t.Cleanup(client.Close)
		return rueidisdriver.New(client)
	}}
}

// awaitRefusal returns when others have had the time to be refused, too.
func (p *Platform) awaitRefusal(t *testing.T, l holdfast.Locker) {
	t.Helper()
	WaitFor(t, "a refusal", func() bool { // not at once, where it has to connect first
		_, err := l.Lock(background, holdfast.Wait(100*time.Millisecond))
		return errors.Is(err, holdfast.ErrLocked)
	})
}

// ThroughProxy returns both adapters behind proxies of their own, with the
// clients' default settings, but for one: rueidis shares one connection with
// holds that listen, and by default gives it up after eleven seconds of silence.
func ThroughProxy(t *testing.T, s *redistest.Server) map[*Platform]*redistest.Proxy {
	t.Helper()
	a, b := redistest.NewProxy(t, s.Addr()), redistest.NewProxy(t, s.Addr())
	return map[*Platform]*redistest.Proxy{
		GoRedis("proxy", redis.UniversalOptions{Addrs: []string{a.Addr()}}, CLI(s)): a,
		RueidisAt("proxy", rueidis.ClientOption{
			InitAddress: []string{b.Addr()}, ConnWriteTimeout: time.Second,
		}, CLI(s)): b,
	}
}
