package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
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
	"github.com/holdfast-go/holdfast/test/kit"
)

// place is where a client is to find Redis, and what it has to say there.
type place struct {
	addr, password string
	tls            *tls.Config // nil: without
	cluster        bool        // the client is one for clusters
}

// detour dials another server until it is over. rueidis makes no client for a place that it cannot use; it may become so later.
type detour struct {
	good string
	to   place

	mu    sync.Mutex
	over  bool
	left  func() // called when the place is dialled, once the detour is over
	early []net.Conn
}

func (d *detour) dial(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		conn, err := dialer.DialContext(ctx, "tcp", d.good)
		if err == nil {
			d.early = append(d.early, conn)
		}
		return conn, err
	}
	d.left()
	if d.to.tls != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: d.to.tls}).DialContext(ctx, "tcp", d.to.addr)
	}
	return dialer.DialContext(ctx, "tcp", d.to.addr)
}

// end has a client go to the place from here on.
func (d *detour) end(client rueidis.Client) {
	d.mu.Lock()
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	d.over, d.left = true, cancel
	for _, conn := range d.early {
		_ = conn.Close()
	}
	d.mu.Unlock()
	_ = client.Do(ctx, client.B().Arbitrary("PING").Build()).Error() // finds its connection gone
}

// transcript is a log. A client whose Close has timed out still writes to it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(line)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// openAt makes a driver of each adapter for a place, and returns what closes its client. good is a server that any client can use.
// valkeydriver is made of rueidisdriver. rueidis has one connection for calls: it would make further ones by chance, and one that it is
// making when it is closed stays and works on.
var openAt = map[string]func(t *testing.T, to place, good string) (d driver.Driver, closeClient func()){
	"go-redis": func(t *testing.T, to place, _ string) (driver.Driver, func()) {
		t.Helper()
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{to.addr}, Password: to.password, TLSConfig: to.tls, IsClusterMode: to.cluster,
		})
		return goredisdriver.New(rdb), func() { _ = rdb.Close() }
	},
	"rueidis": func(t *testing.T, to place, good string) (driver.Driver, func()) {
		t.Helper()
		d := detour{good: good, to: to}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{to.addr}, Password: to.password, ForceSingleClient: !to.cluster, DialCtxFn: d.dial, PipelineMultiplex: -1,
		})
		kit.OK(t, err)
		d.end(client)
		return rueidisdriver.New(client), client.Close
	},
}

// TestClientThatCannotWork has each client somewhere where it cannot work: there is one error that says what to do, at once if that
// cannot change, or else within the timeout or the wait. Nothing that is said or logged has a password in it.
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
	const (
		late    = "no connection in time: check the address of the Redis client, and whether the server wants TLS" // of go-redis, which dials five times
		silence = "Redis did not answer in time"
		nobody  = "nothing listens there, so start Redis"
	)
	for what, c := range map[string]struct {
		place

		says   string // by one of the clients: texts are separated by |
		atOnce bool
		unsent bool // and the error says so
		wait   time.Duration
	}{
		"node":           {place: place{addr: node}, says: "give holdfast a Redis client for clusters", atOnce: true},
		"no cluster":     {place: place{addr: good.Addr(), cluster: true}, says: "give holdfast a Redis client for one server", atOnce: true},
		"no password":    {place: place{addr: wanting.Addr()}, says: "Redis wants a password", atOnce: true},
		"wrong password": {place: place{addr: wanting.Addr(), password: "wr0ng"}, says: "the password of the Redis client is wrong", atOnce: true},
		"no such host":   {place: place{addr: "nowhere.invalid:6379"}, says: "no such host|" + late},
		"refused":        {place: place{addr: refusing.Addr()}, says: nobody + "|" + late, unsent: true},
		"refused, soon":  {place: place{addr: refusing.Addr()}, says: nobody + "|" + silence, unsent: true, wait: time.Second / 2},
		"TLS wanted":     {place: place{addr: secure.Addr()}, says: "EOF|connection reset by peer|" + late},
		"no TLS":         {place: place{addr: good.Addr(), tls: trusting}, says: silence + "|" + late},
		"not trusted":    {place: place{addr: secure.Addr(), tls: trusting}, says: "failed to verify certificate|" + late},
		"no answer":      {place: place{addr: silent.Addr().String()}, says: silence + "|" + late},
	} {
		for adapter, open := range openAt {
			if c.cluster && adapter != "go-redis" {
				continue // these find out by themselves, and work
			}
			t.Run(what+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				d, closeClient := open(t, c.place, good.Addr())
				defer closeClient()
				timeout, options := holdfast.DefaultTimeout, []holdfast.LockOption(nil)
				if c.atOnce {
					timeout = time.Hour // it is not asked again
				}
				if c.wait > 0 {
					options = append(options, holdfast.Wait(c.wait))
				}
				var log transcript
				client, err := holdfast.New(d, holdfast.WithTimeout(timeout), holdfast.WithHooks(holdfast.LogHooks(slog.New(slog.NewTextHandler(&log, nil)), 0)))
				kit.OK(t, err)
				says := func(what string, err error) {
					t.Helper()
					var backend *holdfast.BackendError
					text := fmt.Sprint(err)
					if !errors.As(err, &backend) || strings.Contains(text, "wr0ng") || (c.atOnce || c.unsent) && backend.MayHaveRun ||
						!slices.ContainsFunc(strings.Split(c.says, "|"), func(says string) bool { return strings.Contains(text, says) }) {
						t.Errorf("%s says %v", what, err)
					}
				}
				if c.atOnce { // a request that is too long for somebody without a password is refused in other words
					says("Inspect", kit.ErrOf(client.NewMutex(name).Inspect(background)))
				}
				says("Lock", kit.ErrOf(client.NewMutex(name).Lock(background, options...)))
				_ = client.Close()
				if text := log.String(); !strings.Contains(text, "level=WARN") || strings.Contains(text, "wr0ng") {
					t.Errorf("logged: %s", text)
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
	for adapter, open := range openAt {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			d, closeClient := open(t, place{addr: s.Addr()}, s.Addr())
			closedUnderneath(t, s, d, closeClient)
		})
	}
}

func closedUnderneath(t *testing.T, s *redistest.Server, d driver.Driver, closeClient func()) {
	t.Helper()
	waits, waited := make(chan struct{}), make(chan error, 1)
	// A call that is not answered in time has rueidis make another connection, with which it works on if it is closed just then.
	const timeout = 10 * time.Second
	c, err := testclient.New(d, holdfast.WithLease(16*time.Second), holdfast.WithMargin(6*time.Second), holdfast.WithTimeout(timeout),
		holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { close(waits) }}))
	kit.OK(t, err)
	says := func(what string, err error) {
		t.Helper()
		if !strings.Contains(fmt.Sprint(err), "the program has closed the Redis client") {
			t.Errorf("%s: %v", what, err)
		}
	}
	taken, name := kit.Fresh(), kit.Fresh()
	other := kit.Must(t)(kit.GoRedis("other", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s)).Client(t).NewMutex(taken).Lock(background))
	go func() { waited <- kit.ErrOf(c.NewMutex(taken).Lock(background)) }()
	<-waits
	held := kit.Must(t)(c.NewMutex(name).Lock(background))
	kit.WaitFor(t, "the client says who it is", func() bool { return s.Cli(t, "EXISTS", "holdfast_client:"+c.ID()[:18]) == "1" })
	closeClient()
	<-held.Context().Done()
	if s.Cli(t, "EXISTS", name) != "1" {
		t.Error("the key was gone when the holder was told")
	}
	kit.WantLost(t, held)
	says("the holder", context.Cause(held.Context()))
	says("the waiter", <-waited)
	says("TryLock", kit.ErrOf(c.NewMutex(kit.Fresh()).TryLock(background)))
	kit.WantError(t, held.Unlock(), holdfast.ErrLost)
	began := time.Now()
	says("Close, of what the client says of itself", c.Close())
	if took := time.Since(began); took > timeout {
		t.Errorf("Close took %v", took)
	}
	kit.Unlock(t, other)
}
