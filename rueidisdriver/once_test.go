package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// checkOnce loses the reply to a call that a client makes through the proxy,
// and checks that the script ran once.
func checkOnce(t *testing.T, client rueidis.Client, proxy *redistest.Proxy, key string, then redistest.Aftermath) {
	t.Helper()
	d := New(client)
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
	got, err := client.Do(t.Context(), client.B().Get().Key(key).Build().Pin()).ToString()
	if got != "2" {
		t.Errorf("the script ran %s times after the first, %v", got, err)
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

// aftermaths with the time in which rueidis is to notice the silence.
var aftermaths = map[string]struct {
	then redistest.Aftermath
	wait time.Duration
}{
	"silence": {redistest.ThenSilence, time.Second},
	"reset":   {redistest.ThenReset, 0},
}

func TestOnceOnSingle(t *testing.T) {
	server := redistest.Start(t)
	for name, after := range aftermaths {
		for mode, pooled := range map[string]bool{"pipelined": false, "pooled": true} {
			t.Run(name+" "+mode, func(t *testing.T) {
				proxy := redistest.NewProxy(t, server.Addr())
				client := connect(t, rueidis.ClientOption{
					InitAddress: []string{proxy.Addr()}, ConnWriteTimeout: after.wait, DisableAutoPipelining: pooled,
				})
				checkOnce(t, client, proxy, name+mode, after.then)
			})
		}
	}
}

func TestOnceOnCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	for name, after := range aftermaths {
		t.Run(name, func(t *testing.T) {
			owner := cluster.NodeFor(t, name).Addr()
			proxy := redistest.NewProxy(t, owner)
			client := connect(t, rueidis.ClientOption{
				InitAddress: cluster.Addrs(), ConnWriteTimeout: after.wait,
				DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
					if addr == owner {
						addr = proxy.Addr()
					}
					return dialer.DialContext(ctx, "tcp", addr)
				},
			})
			checkOnce(t, client, proxy, name, after.then)
		})
	}
}

// TestOnceControl shows that the proxy would see a repetition: rueidis does
// repeat a command that reads.
func TestOnceControl(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	client := connect(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
	command := redistest.Command("GET")
	proxy.SwallowNextReply(command, redistest.ThenReset)
	err := client.Do(t.Context(), client.B().Get().Key("control").Build().Pin()).Error()
	if sent := proxy.Requests(command); !rueidis.IsRedisNil(err) || sent != 2 {
		t.Errorf("got %v, %d GET sent, want nil and 2", err, sent)
	}
}

func TestNotSent(t *testing.T) {
	server := redistest.Start(t)
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	t.Run("refused", func(t *testing.T) {
		// rueidis.NewClient wants a server, so there is one until then.
		short := redistest.Start(t)
		d := New(connect(t, rueidis.ClientOption{InitAddress: []string{short.Addr()}}))
		short.Kill()
		eventually(t, func() bool { // until the end of the connection has been seen
			_, err := d.Eval(t.Context(), call)
			var got *driver.Error
			return errors.As(err, &got) && !got.MayHaveRun && got.Transient
		})
	})
	t.Run("wrong password", func(t *testing.T) {
		d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableAutoPipelining: true}))
		server.Cli(t, "ACL", "SETUSER", "default", "resetpass", ">changed")
		_, err := d.Eval(t.Context(), call)
		checkError(t, err, driver.Error{})
	})
}

// TestDialGivenUp lets a call wait for a connection that a cancelled call has
// begun to make.
func TestDialGivenUp(t *testing.T) {
	server := redistest.Start(t)
	hang := make(chan struct{}, 1)
	hanging := make(chan struct{})
	client := connect(t, rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			select {
			case <-hang:
				close(hanging)
				<-ctx.Done()
				return nil, ctx.Err()
			default:
				return dialer.DialContext(ctx, "tcp", addr)
			}
		},
	})
	hang <- struct{}{}
	server.Cli(t, "CLIENT", "KILL", "TYPE", "normal")
	d := New(client)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		for ctx.Err() == nil { // the end of the first connection may have to be noticed
			_, _ = d.Eval(ctx, driver.Call{Script: incr, Keys: []string{"first"}})
		}
	})
	<-hanging
	calls.Go(func() {
		if _, err := d.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"second"}}); err != nil {
			t.Error(err)
		}
	})
	cancel()
	calls.Wait()
}

func TestClassifyForeignContexts(t *testing.T) {
	cases := []struct {
		err  error
		want driver.Error
	}{
		{context.Canceled, driver.Error{Transient: true}},
		{context.DeadlineExceeded, driver.Error{Transient: true, MayHaveRun: true}},
	}
	for _, c := range cases {
		got := classify(t.Context(), c.err)
		checkError(t, got, c.want)
		if errors.Is(got, c.err) || !strings.Contains(got.Error(), c.err.Error()) {
			t.Errorf("%v: looks like the caller's own", got)
		}
	}
}
