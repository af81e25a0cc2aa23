package goredisdriver

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// checkOnce loses the reply to a call that a client with its own settings makes
// through the proxy, and checks that the script ran once.
func checkOnce(t *testing.T, rdb redis.UniversalClient, proxy *redistest.Proxy, key string, then redistest.Aftermath) {
	t.Helper()
	d := New(opened(t, rdb))
	call := driver.Call{Script: incr, Keys: []string{key}}
	if _, err := d.Eval(t.Context(), call); err != nil { // so that the script is known
		t.Fatal(err)
	}
	evalsha := redistest.Command("EVALSHA")
	before := proxy.Requests(evalsha)
	ran := proxy.SwallowNextReply(evalsha, then)
	_, err := d.Eval(t.Context(), call)
	checkError(t, err, driver.Error{MayHaveRun: true, Transient: true})
	<-ran
	if sent := proxy.Requests(evalsha) - before; sent != 1 {
		t.Errorf("%d EVALSHA sent", sent)
	}
	proxy.Cut()
	if got := rdb.Get(t.Context(), key).Val(); got != "2" {
		t.Errorf("the script ran %s times after the first", got)
	}
}

func checkError(t testing.TB, err error, want driver.Error) {
	t.Helper()
	var got *driver.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %T %v, want a *driver.Error", err, err)
	}
	if got.Err == nil || got.MayHaveRun != want.MayHaveRun || got.Transient != want.Transient {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

var aftermaths = map[string]redistest.Aftermath{"silence": redistest.ThenSilence, "reset": redistest.ThenReset}

func TestOnceOnSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, then := range aftermaths {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, server.Addr())
			checkOnce(t, redis.NewClient(&redis.Options{Addr: proxy.Addr()}), proxy, name, then)
		})
	}
}

func TestOnceOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	routing := map[string]bool{"with routing policies": false, "without": true}
	for name, then := range aftermaths {
		for policies, disabled := range routing {
			t.Run(name+" "+policies, func(t *testing.T) {
				key := name + policies
				owner := cluster.NodeFor(t, key).Addr()
				proxy := redistest.NewProxy(t, owner)
				rdb := redis.NewClusterClient(&redis.ClusterOptions{
					Addrs:                  cluster.Addrs(),
					DisableRoutingPolicies: disabled,
					Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
						if addr == owner {
							addr = proxy.Addr()
						}
						return new(net.Dialer).DialContext(ctx, network, addr)
					},
				})
				checkOnce(t, rdb, proxy, key, then)
			})
		}
	}
}

// TestOnceControl shows that the proxy would see a repetition: go-redis does
// repeat a command of its own.
func TestOnceControl(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := opened(t, redis.NewClient(&redis.Options{Addr: proxy.Addr()}))
	command := redistest.Command("INCR")
	proxy.SwallowNextReply(command, redistest.ThenReset)
	got, err := rdb.Incr(t.Context(), "control").Result()
	if sent := proxy.Requests(command); got != 2 || sent != 2 {
		t.Errorf("got %d, %v, %d INCR sent, want 2 of both", got, err, sent)
	}
}

func TestNotSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.WithPassword("secret"))
	closed := redis.NewClient(&redis.Options{Addr: server.Addr()})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	mute := redistest.NewProxy(t, server.Addr())
	mute.BlackHole(redistest.Both, true)
	cases := map[string]struct {
		rdb  redis.UniversalClient
		want driver.Error
	}{
		"refused":         {opened(t, redis.NewClient(&redis.Options{Addr: nobody})), driver.Error{Transient: true}},
		"cluster refused": {opened(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}})), driver.Error{Transient: true}},
		"no password":     {opened(t, redis.NewClient(&redis.Options{Addr: server.Addr()})), driver.Error{}},
		"wrong password":  {opened(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "x"})), driver.Error{}},
		"closed":          {closed, driver.Error{Transient: true}},
		"silent HELLO":    {opened(t, redis.NewClient(&redis.Options{Addr: mute.Addr(), ReadTimeout: 100 * time.Millisecond})), driver.Error{Transient: true}},
		"ring":            {opened(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}})), driver.Error{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.rdb).Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}})
			checkError(t, err, c.want)
		})
	}
}

// TestPoolTimeout waits for a connection that is taken.
func TestPoolTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, PoolTimeout: 50 * time.Millisecond})
	opened(t, rdb)
	conn := rdb.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := New(rdb).Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}})
	checkError(t, err, driver.Error{Transient: true})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// hook counts the commands that pass.
type hook struct{ names chan string }

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.names <- cmd.FullName() + " " + cmd.String()
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestHooks(t *testing.T) {
	server := redistest.Start(t)
	rdb := opened(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	h := hook{make(chan string, 100)}
	rdb.AddHook(h)
	if _, err := New(rdb).Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	// A connection's first commands pass the hooks as well.
	want := "evalsha evalsha " + incr.SHA() + " 1 k"
	for {
		select {
		case name := <-h.names:
			if name == want {
				return
			}
		default:
			t.Fatalf("the hook has not seen %q", want)
		}
	}
}
