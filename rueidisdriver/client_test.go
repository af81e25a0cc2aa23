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

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var incr = driver.NewScript("incr", "return redis.call('INCR', KEYS[1])")

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

// TestWrongPassword changes the password once the client is connected, since
// rueidis.NewClient needs the right one.
func TestWrongPassword(t *testing.T) {
	server := redistest.Start(t)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableAutoPipelining: true}))
	server.Cli(t, "ACL", "SETUSER", "default", "resetpass", ">changed")
	_, err := d.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}})
	drivertest.CheckError(t, "wrong password", err, driver.Error{})
}

// TestClosed closes a client. One that has found other servers closes connections, too, so this is believed after a while. It runs
// beside no other test: a connection that is being made when its client is closed would stay.
func TestClosed(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3, 0)
	for name, addrs := range map[string][]string{"single": {server.Addr()}, "cluster": cluster.Addrs()} {
		t.Run(name, func(t *testing.T) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs})
			if err != nil {
				t.Fatal(err)
			}
			d := New(client)
			if _, err := d.Eval(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}); err != nil {
				t.Error(err)
			}
			client.Close()
			drivertest.CheckClosed(t, d)
		})
	}
}

// TestNoClient has a driver without a client refused by holdfast.New.
func TestNoClient(t *testing.T) {
	t.Parallel()
	type wrapper struct{ rueidis.Client }
	cases := map[string]*Driver{
		"nil": New(nil, WithShardedPubSub(true)), "nil wrapper": New((*wrapper)(nil)), "no driver": nil, "zero driver": {},
	}
	for name, d := range cases {
		if _, err := holdfast.New(d); !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "the rueidis client is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDialCancelled lets a call wait for a connection that a cancelled call of the
// program's own has begun to make.
func TestDialCancelled(t *testing.T) {
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
			_ = client.Do(ctx, client.B().Get().Key("first").Build())
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
		says string
	}{
		{context.Canceled, driver.Error{Transient: true}, "gave up dialling: context canceled"},
		{context.DeadlineExceeded, driver.Error{Transient: true, MayHaveRun: true}, "ended by another call: i/o timeout"},
	}
	for _, c := range cases {
		got := classify(t.Context(), c.err)
		drivertest.CheckError(t, c.err.Error(), got, c.want)
		if errors.Is(got, c.err) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%v: looks like the caller's own", got)
		}
	}
}

// TestReplicatedDeadlineInScript lets the deadline pass before the script is
// answered.
func TestReplicatedDeadlineInScript(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}))
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	if _, _, err := d.EvalReplicated(t.Context(), call, 0, time.Second); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole(redistest.ToClient, true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_, _, err := d.EvalReplicated(ctx, call, 0, time.Second)
	drivertest.CheckError(t, "no reply", err, driver.Error{MayHaveRun: true, Transient: true})
	if took := time.Since(start); took > 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v after %v", err, took)
	}
}
