package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/rueidisdriver"
	"github.com/holdfast-go/holdfast/test/kit"
	"github.com/holdfast-go/holdfast/valkeydriver"
)

// place is where a client is to find Redis, and what it has to say there.
type place struct {
	addr, password string
	tls            *tls.Config // nil: without
	cluster        bool        // the client is one for clusters
	closed         bool        // the program has closed the client
}

// detour dials another server until it is over. rueidis makes no client for a place that it cannot use; it may become so later.
type detour struct {
	good string
	to   place

	mu    sync.Mutex
	over  bool
	early []net.Conn
}

func (d *detour) dial(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.over:
		conn, err := dialer.DialContext(ctx, "tcp", d.good)
		if err == nil {
			d.early = append(d.early, conn)
		}
		return conn, err
	case d.to.tls != nil:
		return (&tls.Dialer{NetDialer: dialer, Config: d.to.tls}).DialContext(ctx, "tcp", d.to.addr)
	}
	return dialer.DialContext(ctx, "tcp", d.to.addr)
}

// end has a client go to the place from here on.
func (d *detour) end(t *testing.T, closeClient func(), ping func(ctx context.Context) error) {
	t.Helper()
	d.mu.Lock()
	d.over = true
	for _, conn := range d.early {
		_ = conn.Close()
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_ = ping(ctx) // finds its connection gone
	if d.to.closed {
		closeClient()
	}
	t.Cleanup(closeClient)
}

// openAt makes a driver of each adapter for a place. good is a server that any client can use.
var openAt = map[string]func(t *testing.T, to place, good string) driver.Driver{
	"go-redis": func(t *testing.T, to place, _ string) driver.Driver {
		t.Helper()
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{to.addr}, Password: to.password, TLSConfig: to.tls, IsClusterMode: to.cluster,
		})
		if to.closed {
			_ = rdb.Close()
		}
		t.Cleanup(func() { _ = rdb.Close() })
		return goredisdriver.New(rdb)
	},
	"rueidis": func(t *testing.T, to place, good string) driver.Driver {
		t.Helper()
		d := detour{good: good, to: to}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{to.addr}, Password: to.password, ForceSingleClient: !to.cluster, DialCtxFn: d.dial,
		})
		kit.OK(t, err)
		d.end(t, client.Close, func(ctx context.Context) error {
			return client.Do(ctx, client.B().Arbitrary("PING").Build()).Error()
		})
		return rueidisdriver.New(client)
	},
	"valkey-go": func(t *testing.T, to place, good string) driver.Driver {
		t.Helper()
		d := detour{good: good, to: to}
		client, err := valkey.NewClient(valkey.ClientOption{
			InitAddress: []string{to.addr}, Password: to.password, ForceSingleClient: !to.cluster, DialCtxFn: d.dial,
		})
		kit.OK(t, err)
		d.end(t, client.Close, func(ctx context.Context) error {
			return client.Do(ctx, client.B().Arbitrary("PING").Build()).Error()
		})
		return valkeydriver.New(client)
	},
}

// TestClientThatCannotWork has each client, and the tool, somewhere where it cannot work: there is one error that says what to do,
// at once if that cannot change, or else within the timeout.
func TestClientThatCannotWork(t *testing.T) {
	t.Parallel()
	good, wanting := redistest.Start(t), redistest.Start(t, redistest.WithPassword("sesame"))
	secure, cluster := redistest.Start(t, redistest.WithTLS()), redistest.StartCluster(t, 3, 0)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	kit.OK(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	refusing := redistest.NewProxy(t, good.Addr())
	refusing.Close()
	trusting := &tls.Config{MinVersion: tls.VersionTLS12}
	node, name := cluster.Nodes[0].Addr(), "a"
	for cluster.NodeFor(t, name).Addr() == node {
		name += "a"
	}
	built := buildTool(t)
	const (
		late    = "no connection in time: check the address of the Redis client, and whether the server wants TLS" // of go-redis, which dials five times
		silence = "Redis did not answer in time"
	)
	for what, c := range map[string]struct {
		place

		atOnce bool
		says   string // by one of the clients: texts are separated by |
		tool   string
	}{
		"closed":         {place{addr: good.Addr(), closed: true}, false, "the program has closed the Redis client", ""},
		"node":           {place{addr: node}, true, "give holdfast a Redis client for clusters", "put ?cluster=true behind the URL"},
		"no cluster":     {place{addr: good.Addr(), cluster: true}, true, "give holdfast a Redis client for one server", "it is no cluster, so name one host"},
		"no password":    {place{addr: wanting.Addr()}, true, "Redis wants a password", "set HOLDFAST_REDIS_PASSWORD"},
		"wrong password": {place{addr: wanting.Addr(), password: "wr0ng"}, true, "the password of the Redis client is wrong", "the user name or the password is wrong"},
		"no such host":   {place{addr: "nowhere.invalid:6379"}, false, "no such host|" + late, "no such host is known"},
		"refused":        {place{addr: refusing.Addr()}, false, "connection refused|" + late, "check that it runs there"},
		"TLS wanted":     {place{addr: secure.Addr()}, false, "EOF|connection reset by peer|" + late, "rediss:// if it uses TLS"},
		"no TLS":         {place{addr: good.Addr(), tls: trusting}, false, silence + "|" + late, "redis://"},
		"not trusted":    {place{addr: secure.Addr(), tls: trusting}, false, "failed to verify certificate|" + late, "its certificate is not trusted"},
		"no answer":      {place{addr: silent.Addr().String()}, false, silence + "|" + late, "check that it runs there"},
	} {
		for adapter, open := range openAt {
			if c.cluster && adapter != "go-redis" {
				continue // these find out by themselves, and work
			}
			t.Run(what+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				cannotWork(t, open(t, c.place, good.Addr()), name, c.atOnce, strings.Split(c.says, "|"))
			})
		}
		if c.tool != "" {
			t.Run(what+"/tool", func(t *testing.T) {
				t.Parallel()
				toolCannotWork(t, built, c.place, name, c.tool)
			})
		}
	}
}

func cannotWork(t *testing.T, d driver.Driver, name string, atOnce bool, says []string) {
	t.Helper()
	timeout := holdfast.DefaultTimeout
	if atOnce {
		timeout = time.Hour // it is not asked again
	}
	client, err := holdfast.New(d, holdfast.WithTimeout(timeout))
	kit.OK(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.NewMutex(name).Lock(background)
	var backend *holdfast.BackendError
	if !errors.As(err, &backend) || !slices.ContainsFunc(says, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		t.Fatalf("it says %v", err)
	}
	if strings.Contains(err.Error(), "wr0ng") || atOnce && backend.MayHaveRun {
		t.Errorf("%v", err)
	}
}

// TestNobodyListens has Lock wait, for several times, at a port where nobody listens: the error says so, and that nothing was sent,
// also if the wait ends while the client dials again.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t)
	refusing := redistest.NewProxy(t, good.Addr())
	refusing.Close()
	for adapter, open := range openAt {
		for _, wait := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 7 * time.Second} {
			t.Run(fmt.Sprint(adapter, " ", wait), func(t *testing.T) {
				t.Parallel()
				client, err := testclient.New(open(t, place{addr: refusing.Addr()}, good.Addr()))
				kit.OK(t, err)
				t.Cleanup(func() { _ = client.Close() })
				_, err = client.NewMutex(kit.Fresh()).Lock(background, holdfast.Wait(wait))
				var backend *holdfast.BackendError
				says := []string{"nothing listens there, so start Redis"}
				if wait < 2*time.Second { // in which go-redis, which dials five times, may not be done
					says = append(says, "Redis did not answer in time")
				}
				if !errors.As(err, &backend) || backend.MayHaveRun || !slices.ContainsFunc(says, func(text string) bool { return strings.Contains(err.Error(), text) }) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestClientIsClosedUnderneath has the program close its Redis client while a lock is held and another one waited for: both are
// told why in time, and nothing takes long.
func TestClientIsClosedUnderneath(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for adapter, open := range map[string]func() (driver.Driver, func(), error){
		"go-redis": func() (driver.Driver, func(), error) {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			return goredisdriver.New(rdb), func() { _ = rdb.Close() }, nil
		},
		"rueidis": func() (driver.Driver, func(), error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})
			return rueidisdriver.New(client), client.Close, err
		},
		"valkey-go": func() (driver.Driver, func(), error) {
			client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{s.Addr()}})
			return valkeydriver.New(client), client.Close, err
		},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			d, closeClient, err := open()
			if err != nil {
				t.Fatal(err)
			}
			closedUnderneath(t, s, d, closeClient)
		})
	}
}

func closedUnderneath(t *testing.T, s *redistest.Server, d driver.Driver, closeClient func()) {
	t.Helper()
	const says = "the program has closed the Redis client"
	waits, waited := make(chan struct{}), make(chan error, 1)
	c, err := testclient.New(d, holdfast.WithLease(12*time.Second), holdfast.WithMargin(2500*time.Millisecond),
		holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { close(waits) }}))
	if err != nil {
		t.Fatal(err)
	}
	taken, name := kit.Fresh(), kit.Fresh()
	other := kit.Must(t)(kit.GoRedis("other", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s)).Client(t).NewMutex(taken).Lock(background))
	go func() {
		_, err := c.NewMutex(taken).Lock(background)
		waited <- err
	}()
	<-waits
	held := kit.Must(t)(c.NewMutex(name).Lock(background))
	closeClient()
	<-held.Context().Done()
	if cause := context.Cause(held.Context()); s.Cli(t, "EXISTS", name) != "1" || !errors.Is(cause, holdfast.ErrLost) || !strings.Contains(cause.Error(), says) {
		t.Errorf("the holder is told, perhaps too late: %v", cause)
	}
	if err := <-waited; !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("the waiter: %v", err)
	}
	if _, err := c.NewMutex(kit.Fresh()).TryLock(background); !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("TryLock: %v", err)
	}
	kit.WantError(t, held.Unlock(), holdfast.ErrLost)
	began := time.Now()
	if err := c.Close(); err != nil || time.Since(began) > holdfast.DefaultTimeout {
		t.Errorf("Close, after %v: %v", time.Since(began), err)
	}
	kit.Unlock(t, other)
}

// TestPoolIsTaken has the program's blocking commands take all connections of go-redis: the holder is told why in time, and whoever
// asks that nothing was sent.
func TestPoolIsTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 4})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := testclient.New(goredisdriver.New(rdb), holdfast.WithLease(6*time.Second), holdfast.WithMargin(2500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kit.OK(t, c.Close()) })
	name := kit.Fresh()
	held := kit.Must(t)(c.NewMutex(name).Lock(background))
	ctx, cancel := context.WithCancel(background)
	var blocked sync.WaitGroup
	for range 10 {
		blocked.Go(func() {
			for ctx.Err() == nil {
				_ = rdb.BLPop(ctx, 0, "queue").Err()
			}
		})
	}
	defer func() { // go-redis does not close a client that reads
		cancel()
		s.Cli(t, "CLIENT", "KILL", "TYPE", "normal")
		blocked.Wait()
	}()
	<-held.Context().Done()
	const says = "raise PoolSize"
	if cause := context.Cause(held.Context()); s.Cli(t, "EXISTS", name) != "1" || !strings.Contains(cause.Error(), says) {
		t.Errorf("the holder is told, perhaps too late: %v", cause)
	}
	_, err = c.NewMutex(kit.Fresh()).TryLock(background)
	var backend *holdfast.BackendError
	if !errors.As(err, &backend) || backend.MayHaveRun || !strings.Contains(err.Error(), says) {
		t.Errorf("TryLock: %v", err)
	}
}

func toolCannotWork(t *testing.T, built string, to place, name, says string) {
	t.Helper()
	url := "redis://:" + to.password + "@" + to.addr
	if to.tls != nil {
		url = strings.Replace(url, "redis", "rediss", 1)
	}
	if to.cluster {
		url += "?cluster=true"
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), built, "run", "-q", "--wait", "1s", name, "--", "true")
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOLDFAST_REDIS="+url), &said
	_ = cmd.Run() // its exit code says that
	text := said.String()
	if cmd.ProcessState.ExitCode() != 69 || strings.Count(text, "\n") != 1 || !strings.Contains(text, says) || strings.Contains(text, "wr0ng") {
		t.Errorf("%v: %s", cmd.ProcessState, text)
	}
}

// buildTool builds the command-line tool.
func buildTool(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/holdfast")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
