package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// aboutHandOver matches the tests of the hand-over, and of readers who share a hold: without
// it they have nothing to look at.
const aboutHandOver = "HandOver|HandedOver|Share|Sharing|WaitOverBefore|LeftBeside"

func TestMain(m *testing.M) {
	if os.Getenv(contenderVariable) != "" {
		os.Exit(contend()) // see overlap_test.go
	}
	run(m)
}

// run runs the tests of a package, as its TestMain.
func run(m *testing.M) {
	logging.Disable()                                    // go-redis tells of every switch and every lost connection
	defaults := map[string]string{"test.parallel": "16"} // most of the tests that are parallel wait most of the time
	if testclient.WithoutHandOver() {
		defaults["test.skip"] = aboutHandOver
	}
	for name, value := range defaults {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		// A cluster client of rueidis leaves these asleep for some seconds.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		// A client of go-redis that has found its server away leaves this one asleep for a second.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	)
}

// platform is a server, or several, as one adapter reaches it.
type platform struct {
	name    string
	sharded bool // releases are announced with SPUBLISH
	// open returns a driver with a connection of its own.
	open func(t *testing.T) driver.Driver
	// do executes a command where the key lives, and returns the reply's lines.
	do      func(t *testing.T, key string, args ...string) []string
	options []holdfast.ClientOption // of every client
	// dead reports whether the test has killed the server. Then Close may say that
	// nobody has answered. nil: it never is.
	dead func() bool
}

// client returns a client on a driver of its own.
func (p *platform) client(t *testing.T, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	c, err := testclient.New(p.open(t), slices.Concat(p.options, options)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && (p.dead == nil || !p.dead() || !errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// cli is a platform's do on a server that holds every key.
func cli(s *redistest.Server) func(*testing.T, string, ...string) []string {
	return func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return lines(s.Cli(t, args...))
	}
}

// onCluster is a platform's do on a cluster. What is asked about connections is asked
// of every node: messages that are not sharded may be listened for on any.
func onCluster(s *redistest.Cluster) func(*testing.T, string, ...string) []string {
	return func(t *testing.T, key string, args ...string) (all []string) {
		t.Helper()
		nodes := s.Nodes
		if args[0] != "PUBSUB" && args[0] != "CLIENT" {
			nodes = []*redistest.Server{s.NodeFor(t, key)}
		}
		for _, node := range nodes {
			all = append(all, lines(node.Cli(t, args...))...)
		}
		return all
	}
}

// direct is cli without a process for each command.
func direct(t *testing.T, s *redistest.Server) func(*testing.T, string, ...string) []string {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		command := make([]any, len(args))
		for i, arg := range args {
			command[i] = arg
		}
		reply, err := rdb.Do(background, command...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("%q: %v", args, err)
		}
		switch reply := reply.(type) {
		case []any:
			var all []string
			for _, item := range reply {
				all = append(all, fmt.Sprint(item))
			}
			return all
		case map[any]any:
			var all []string
			for field, value := range reply {
				all = append(all, fmt.Sprint(field), fmt.Sprint(value))
			}
			return all
		case nil:
			return nil
		default:
			return []string{fmt.Sprint(reply)}
		}
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// memory is the memory driver, in real time. With the race detector, on a machine that has other work, fifty who ask
// at once are answered within seconds: it is not for what is to happen within a timeout.
func memory(t *testing.T) *platform {
	t.Helper()
	server, err := memdriver.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &platform{
		name:    "memory",
		options: []holdfast.ClientOption{holdfast.WithTimeout(30 * time.Second)},
		open:    func(*testing.T) driver.Driver { return server.Driver() },
		do: func(t *testing.T, _ string, args ...string) []string {
			t.Helper()
			reply, err := server.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			if items, ok := reply.([]any); ok {
				return strings.Fields(strings.Trim(fmt.Sprint(items), "[]"))
			}
			return lines(fmt.Sprint(reply))
		},
	}
}

// goRedis reaches servers through go-redis. The options are those of a
// UniversalClient, which decides by them what kind of client it is.
func goRedis(name string, options redis.UniversalOptions, do func(*testing.T, string, ...string) []string) *platform {
	return &platform{name: name + "/go-redis", do: do, open: func(t *testing.T) driver.Driver {
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

// rueidisAt reaches servers through rueidis.
func rueidisAt(name string, option rueidis.ClientOption, do func(*testing.T, string, ...string) []string) *platform {
	return &platform{name: name + "/rueidis", do: do, open: func(t *testing.T) driver.Driver {
		t.Helper()
		client, err := rueidis.NewClient(option)
		// A busy machine may be too slow for Dialer.Timeout or ConnWriteTimeout, which bound connecting, too.
		for i := 0; i < 5 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)); i++ {
			client, err = rueidis.NewClient(option)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return rueidisdriver.New(client)
	}}
}

// standalone returns every driver: the memory one, and the others on one server.
func standalone(t *testing.T) []*platform {
	t.Helper()
	s := redistest.Start(t)
	return []*platform{
		memory(t),
		goRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, cli(s)),
		rueidisAt("standalone", rueidis.ClientOption{InitAddress: []string{s.Addr()}}, cli(s)),
	}
}

// onEveryDriver runs a suite with each driver, beside other tests.
func onEveryDriver(t *testing.T, suite map[string]func(*testing.T, *platform)) {
	t.Helper()
	t.Parallel()
	for _, p := range standalone(t) {
		for name, test := range suite {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}
