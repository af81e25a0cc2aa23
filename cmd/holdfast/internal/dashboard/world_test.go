package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain keeps the Redis client silent, once for all tests.
func TestMain(m *testing.M) {
	connect.Quiet()
	m.Run()
}

// patience is for how long a test waits for what must come.
const patience = 30 * time.Second

// eventually waits for something to be so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// world is a Redis with locks in it, and a dashboard of it.
type world struct {
	*testing.T

	server *redistest.Server
	rdb    redis.UniversalClient // not the dashboard's
	proxy  *redistest.Proxy      // in front of the dashboard's
	addr   string

	mu   sync.Mutex
	said strings.Builder
}

// logf keeps what the dashboard says.
func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.said, format+"\n", args...)
}

func (w *world) hasSaid() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: redistest.Start(t)}
	w.proxy = redistest.NewProxy(t, w.server.Addr())
	w.rdb = w.client(w.server.Addr())
	return w
}

func (w *world) client(addr string) redis.UniversalClient {
	w.Helper()
	target, err := connect.Options{URL: "redis://" + addr}.Resolve()
	if err != nil {
		w.Fatal(err)
	}
	rdb := target.Client(connect.Bounded(target.Dial)) // as the tool does
	w.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// config is one that looks often.
func (w *world) config() Config {
	w.Helper()
	return Config{
		Redis: w.client(w.proxy.Addr()), Server: w.server.Addr(), Interval: 100 * time.Millisecond, Most: 1000, Log: w.logf,
		Explain: func(err error) string { return connect.Explain(err).Error() },
	}
}

// serve runs a dashboard until the test ends.
func (w *world) serve(cfg Config) {
	w.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, listener, cfg) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("the dashboard ended with %v", err)
		}
	})
}

// served is a world with a lock that Java holds for ever, and a dashboard until the test ends.
func served(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := newWorld(t)
	w.holds("job", javaOwner, 0)
	cfg := w.config()
	for _, f := range change {
		f(&cfg)
	}
	w.serve(cfg)
	return w
}

// mayUnlock has the dashboard take locks away.
func mayUnlock(c *Config) { c.AllowUnlock = true }

// do calls Redis.
func (w *world) do(args ...any) {
	w.Helper()
	if err := w.rdb.Do(context.Background(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		w.Fatal(err)
	}
}

// person is a client that says who it is.
type person struct{ uuid, program, host, pid string }

func newPerson(n int, program, host string) person {
	return person{fmt.Sprintf("%08x-c6cc-889e-88f6-8265bee545cf", n), program, host, fmt.Sprint(4000 + n)}
}

func (p person) owner() string { return p.uuid + ":1" }

// isHere has a client say who it is, and since when it holds some locks.
func (w *world) isHere(p person, held time.Duration, names ...string) {
	w.Helper()
	key := "holdfast_client:" + p.uuid[:18]
	args := []any{"HSET", key, "program", p.program, "version", "v1.0.0", "host", p.host, "pid", p.pid, "since", fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())}
	for _, name := range names {
		args = append(args, p.owner()+" "+name, fmt.Sprint(time.Now().Add(-held).UnixMilli()))
	}
	w.do(args...)
}

// holds has somebody hold a mutex.
func (w *world) holds(name, owner string, lease time.Duration) {
	w.Helper()
	w.do("EVAL", "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], ARGV[1], '1'); if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end", "1",
		name, owner, lease.Milliseconds())
}

const javaOwner = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
