package goredisdriver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var incr = driver.NewScript("incr", "return redis.call('INCR', KEYS[1])")

// TestOnceControl shows that the proxy would see a repetition: go-redis does
// repeat a command of its own.
func TestOnceControl(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := closeLater(t, redis.NewClient(&redis.Options{Addr: proxy.Addr()}))
	command := redistest.Command("INCR")
	proxy.SwallowNextReply(command, redistest.ThenReset)
	got, err := rdb.Incr(t.Context(), "control").Result()
	if sent := proxy.Requests(command); got != 2 || sent != 2 {
		t.Errorf("got %d, %v, %d INCR sent, want 2 of both", got, err, sent)
	}
}

// TestNotSent tells failures apart in which no script was sent.
func TestNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword("secret"))
	gone := redistest.Start(t)
	gone.Kill()
	closed := redis.NewClient(&redis.Options{Addr: server.Addr()})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	mute := redistest.NewProxy(t, server.Addr())
	mute.BlackHole(redistest.Both, true)
	client := func(options redis.Options) redis.UniversalClient { return closeLater(t, redis.NewClient(&options)) }
	cases := map[string]struct {
		rdb  redis.UniversalClient
		want driver.Error
	}{
		"cluster refused": {closeLater(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{gone.Addr()}})), driver.Error{Transient: true}},
		"no password":     {client(redis.Options{Addr: server.Addr()}), driver.Error{}},
		"wrong password":  {client(redis.Options{Addr: server.Addr(), Password: "x"}), driver.Error{}},
		"closed":          {closed, driver.Error{}},
		"silent HELLO":    {client(redis.Options{Addr: mute.Addr(), ReadTimeout: 100 * time.Millisecond}), driver.Error{Transient: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			call := driver.Call{Script: incr, Keys: []string{"k"}}
			_, err := New(c.rdb).Eval(t.Context(), call)
			drivertest.CheckError(t, "Eval", err, c.want)
			_, _, err = New(c.rdb).EvalReplicated(t.Context(), call, 1, time.Second)
			drivertest.CheckError(t, "EvalReplicated", err, c.want)
		})
	}
}

// TestNoClient has what cannot carry locks refused by holdfast.New.
func TestNoClient(t *testing.T) {
	t.Parallel()
	const missing = "the go-redis client is nil"
	cases := map[string]struct {
		d    *Driver
		says string
	}{
		"nil":         {New(nil, WithShardedPubSub(true)), missing},
		"nil client":  {New((*redis.Client)(nil)), missing},
		"nil cluster": {New((*redis.ClusterClient)(nil)), missing},
		"nil ring":    {New((*redis.Ring)(nil)), missing},
		"ring":        {New(closeLater(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}))), ErrRing.Error()},
		"no driver":   {nil, missing},
		"zero driver": {&Driver{}, missing},
	}
	for name, c := range cases {
		if _, err := holdfast.New(c.d); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPoolTimeout waits for a connection that is taken.
func TestPoolTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := closeLater(t, redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, PoolTimeout: 50 * time.Millisecond}))
	conn := rdb.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := New(rdb).Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}})
	drivertest.CheckError(t, "no connection", err, driver.Error{Transient: true})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPoolTaken waits for a connection that a blocking command of the program's has. The caller learns that nothing was sent, and why.
func TestPoolTaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := closeLater(t, redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1}))
	d := New(rdb)
	call := driver.Call{Script: incr, Keys: []string{"k"}, Late: told(func(any, error) { t.Error("Late was told of a call that was not sent") })}
	for range 2 { // the first by a worker, the second by its caller
		if _, err := d.Eval(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	conn := rdb.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first by its caller, the second by a worker
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := d.Eval(ctx, call)
		ended := ctx.Err()
		cancel()
		drivertest.CheckError(t, "no connection", err, driver.Error{Transient: true})
		if ended == nil && !strings.Contains(err.Error(), "raise PoolSize") {
			t.Errorf("%v", err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Eval(t.Context(), call); err != nil || got != int64(3) {
		t.Errorf("then %v, %v", got, err)
	}
}

// TestPoolTakenInSilence has a silent server keep all connections. Nobody is told that the program's own commands do.
func TestPoolTakenInSilence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(closeLater(t, redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1})))
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	if _, err := d.Eval(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	defer server.Cont() // go-redis 9.19 waits in Close for as long as the server is silent
	taken := 0
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := d.Eval(ctx, call)
		cancel()
		if text := fmt.Sprint(err); strings.Contains(text, "raise PoolSize") {
			taken++
			if !strings.Contains(text, "if the server answers") {
				t.Error(text)
			}
		}
	}
	if taken == 0 {
		t.Error("there was always a connection")
	}
}

// TestLeftUnsent has a caller leave while its connection is being made. The call is not sent when that stands.
func TestLeftUnsent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.BlackHole(redistest.ToServer, true)
	d := New(closeLater(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 10 * time.Second})))
	call := driver.Call{Script: incr, Keys: []string{"k"}, Late: told(func(any, error) { t.Error("Late was told of a call that was not sent") })}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err := d.Eval(ctx, call)
	drivertest.CheckError(t, "left", err, driver.Error{Transient: true})
	proxy.BlackHole(redistest.ToServer, false)
	if got, err := d.Eval(t.Context(), call); err != nil || got != int64(1) {
		t.Errorf("then %v, %v", got, err)
	}
	for start := time.Now(); proxy.Requests(redistest.Command("EVAL")) < 2; time.Sleep(time.Millisecond) { // an empty one is in place of the first
		if time.Since(start) > 10*time.Second {
			t.Fatal("nothing was sent in place of the first")
		}
	}
	if got, err := d.Eval(t.Context(), call); err != nil || got != int64(2) {
		t.Errorf("in the end %v, %v", got, err)
	}
}

// TestLeftUnsentMoved has a caller leave while its call waits for a connection to a node of a cluster, which is not in charge of
// the key any more when there is one. The call is not sent to the node that is.
func TestLeftUnsentMoved(t *testing.T) {
	t.Parallel()
	const key = "k"
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := closeLater(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), PoolSize: 1, PoolTimeout: time.Minute}))
	d := New(rdb)
	call := driver.Call{Script: incr, Keys: []string{key}}
	if _, err := d.Eval(t.Context(), call); err != nil { // sent by a worker, and the next one by its caller
		t.Fatal(err)
	}
	node, err := rdb.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	conn := node.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first by its caller, the second by a worker
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		_, err := d.Eval(ctx, call)
		drivertest.CheckError(t, "left", err, driver.Error{Transient: true})
	}
	cluster.BeginMove(t, key).Finish(t)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	to := cluster.NodeFor(t, key)
	for start := time.Now(); to.Calls(t, "eval") == 0; time.Sleep(time.Millisecond) { // an empty one is in place of the call
		if time.Since(start) > 10*time.Second {
			t.Fatal("nothing was sent in its place to the node in charge")
		}
	}
	if got := to.Cli(t, "GET", key); got != "1" {
		t.Errorf("the call was made %s times", got)
	}
}

// TestForgottenUnused has connections fall silent that the pool has made ahead of time, and that nobody has used yet. They cost
// one attempt.
func TestForgottenUnused(t *testing.T) {
	t.Parallel()
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprint("fifo=", fifo), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			firewall := redistest.NewFirewall(t, server)
			rdb := closeLater(t, redis.NewClient(&redis.Options{
				Addr: server.Addr(), PoolSize: 50, MinIdleConns: 20, PoolFIFO: fifo, Dialer: firewall.Dial,
			}))
			d := New(rdb)
			call := driver.Call{Script: incr, Keys: []string{t.Name()}}
			for range 3 {
				if _, err := d.Eval(t.Context(), call); err != nil {
					t.Fatal(err)
				}
			}
			for start := time.Now(); strings.Count(server.Cli(t, "CLIENT", "LIST"), "laddr=") < 21; time.Sleep(time.Millisecond) {
				if time.Since(start) > 10*time.Second {
					t.Fatal("the pool has not made its connections")
				}
			}
			firewall.Forget()
			defer firewall.Cut()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.Eval(ctx, call); err == nil {
				t.Error("the first attempt was answered")
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := d.Eval(ctx, call); err != nil {
				t.Errorf("the second attempt: %v", err)
			}
		})
	}
}

// TestWhyNoConnection has a caller's time end while the client still dials again and again.
func TestWhyNoConnection(t *testing.T) {
	t.Parallel()
	gone := redistest.Start(t)
	gone.Kill()
	d := New(closeLater(t, redis.NewClient(&redis.Options{Addr: gone.Addr(), DialerRetries: 100})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{"k"}})
	ended := ctx.Err()
	drivertest.CheckError(t, "no connection", err, driver.Error{Transient: true})
	if ended == nil && !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

// TestWhySentinelIsSilent has a Sentinel that does not answer: the error names the settings that would help.
func TestWhySentinelIsSilent(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	d := New(closeLater(t, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{silent.Addr().String()}})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = d.Eval(ctx, driver.Call{Script: incr, Keys: []string{"k"}})
	ended := ctx.Err()
	drivertest.CheckError(t, "no connection", err, driver.Error{Transient: true})
	if ended == nil && !strings.Contains(err.Error(), "set MaxRetries to -1, ReadTimeout to a second and DialTimeout to two") {
		t.Errorf("%v", err)
	}
}

// told is a driver.Late.
type told func(reply any, err error)

func (t told) Tell(reply any, err error) { t(reply, err) }

// TestClosedCluster closes a cluster client. A node's client may be closed because of the topology, so this is believed after a while.
func TestClosedCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	d := New(rdb)
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	if _, err := d.Eval(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Close(); err != nil {
		t.Fatal(err)
	}
	drivertest.CheckClosed(t, d)
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

// TestHooks has a hook see what a worker sends: the first call, and others while it is not done.
func TestHooks(t *testing.T) {
	server := redistest.Start(t)
	rdb := closeLater(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	h := hook{make(chan string, 100)}
	rdb.AddHook(h)
	d := New(rdb)
	if _, err := d.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
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

// TestReplicatedPipelined checks that WAIT does not wait for the script's reply.
func TestReplicatedPipelined(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := New(closeLater(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 2 * time.Second})))
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	if _, err := d.Eval(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole(redistest.ToClient, true)
	_, _, err := d.EvalReplicated(t.Context(), call, 0, time.Millisecond)
	drivertest.CheckError(t, "no reply", err, driver.Error{MayHaveRun: true, Transient: true})
	if sent := proxy.Requests(redistest.Command("WAIT")); sent != 1 {
		t.Errorf("%d WAIT sent", sent)
	}
}

// TestCloseWhileDialling closes a listener whose server does not accept.
func TestCloseWhileDialling(t *testing.T) {
	dialling := make(chan struct{})
	var once sync.Once
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1",
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			once.Do(func() { close(dialling) })
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	l := New(closeLater(t, rdb)).Listen(func(driver.Event) {})
	l.Subscribe("hanging")
	<-dialling
	start := time.Now()
	l.Close()
	if took := time.Since(start); took > 4*time.Second { // a dial has 5 s
		t.Errorf("Close took %v", took)
	}
}

// TestSilentConnections lets all connections fall silent, for a client that waits for
// replies for ever. The calls on them are given up; others make connections of their own.
func TestSilentConnections(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var direct atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ReadTimeout: -1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			addr := proxy.Addr()
			if direct.Load() {
				addr = server.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	d := New(client)
	calls := func(timeout time.Duration) (answered int32) {
		var n atomic.Int32
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if _, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{strconv.Itoa(i)}}); err == nil {
					n.Add(1)
				}
			})
		}
		all.Wait()
		return n.Load()
	}
	if n := calls(10 * time.Second); n != 16 {
		t.Fatalf("%d of 16 answered at first", n)
	}
	proxy.Delay(redistest.ToClient, 100*time.Millisecond)
	var pings sync.WaitGroup
	for range 12 { // more connections than a driverkit.Group has workers
		pings.Go(func() { client.Ping(t.Context()) })
	}
	pings.Wait()
	direct.Store(true)
	proxy.BlackHole(redistest.Both, true)
	for range 20 { // each round finds some of the silent connections
		if calls(time.Second) == 16 {
			proxy.Cut()
			return
		}
	}
	t.Error("no round was answered")
	proxy.Cut()
}

// TestScriptThatSaysNoScript is not sent again and again.
func TestScriptThatSaysNoScript(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	odd := driver.NewScript("odd", "return redis.error_reply('NOSCRIPT no')")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := New(client).Eval(ctx, driver.Call{Script: odd, Keys: []string{"k"}})
	drivertest.CheckError(t, "odd", err, driver.Error{Code: "NOSCRIPT"})
}

// TestMalformedMessages has a server send messages that go-redis panics at. Each costs the connection; on the last one the listener hears what is said.
func TestMalformedMessages(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	replies := []string{"*1\r\n$7\r\nmessage\r\n", "*0\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n+1\r\n", "*9223372036854775807\r\n"}
	last := "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$2\r\nhi\r\n"
	go func() {
		for i := 0; ; i++ {
			reply := last
			if i < len(replies) {
				reply = replies[i]
			}
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewScanner(conn)
				for in.Scan() {
					switch strings.ToLower(in.Text()) {
					case "hello":
						_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
					case "client", "ping":
						_, _ = io.WriteString(conn, "+OK\r\n")
					case "subscribe":
						_, _ = io.WriteString(conn, reply)
					}
				}
			}()
		}
	}()
	heard := make(chan string, 1)
	l := New(closeLater(t, redis.NewClient(&redis.Options{Addr: server.Addr().String(), DisableIdentity: true}))).Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			heard <- e.Payload
		}
	})
	defer l.Close()
	l.Subscribe("x")
	select {
	case payload := <-heard:
		if payload != "hi" {
			t.Errorf("it hears %q", payload)
		}
	case <-time.After(20 * time.Second):
		t.Error("it hears nothing")
	}
}
