package rueidisdriver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// checkReplicatedOnce loses the reply to the script, and then that to WAIT, of
// calls that a client makes through the proxy. The script runs once a call, and
// its reply survives the loss of the other.
func checkReplicatedOnce(t *testing.T, client rueidis.Client, proxy *redistest.Proxy, key string, then redistest.Aftermath) {
	t.Helper()
	d := New(client)
	call := driver.Call{Script: incr, Keys: []string{key}}
	if _, err := d.Eval(t.Context(), call); err != nil { // so that the script is known
		t.Fatal(err)
	}
	evalsha, wait := redistest.Command("EVALSHA"), redistest.Command("WAIT")
	before := proxy.Requests(evalsha)
	ran := proxy.SwallowNextReply(evalsha, then)
	_, _, err := d.EvalReplicated(t.Context(), call, 1, 100*time.Millisecond)
	checkError(t, err, driver.Error{MayHaveRun: true, Transient: true})
	<-ran
	ran = proxy.SwallowNextReply(wait, then)
	reply, acknowledged, err := d.EvalReplicated(t.Context(), call, 0, 100*time.Millisecond)
	<-ran
	if reply != int64(3) || acknowledged != 0 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 3 and none", reply, acknowledged, err)
	}
	if sent := proxy.Requests(evalsha) - before; sent != 2 {
		t.Errorf("%d EVALSHA sent for two calls", sent)
	}
	got, err := client.Do(t.Context(), client.B().Get().Key(key).Build().Pin()).ToString()
	if got != "3" {
		t.Errorf("the script ran %s times in three calls, %v", got, err)
	}
}

func TestReplicatedOnceOnSingle(t *testing.T) {
	servers := redistest.StartReplicated(t, 1)
	for name, after := range aftermaths {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, servers.Primary.Addr())
			client := connect(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ConnWriteTimeout: after.wait})
			checkReplicatedOnce(t, client, proxy, name, after.then)
		})
	}
}

func TestReplicatedOnceOnCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1)
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
			checkReplicatedOnce(t, client, proxy, name, after.then)
		})
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
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, _, err := d.EvalReplicated(ctx, call, 0, time.Second)
	checkError(t, err, driver.Error{MayHaveRun: true, Transient: true})
	if took := time.Since(start); took > 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v after %v", err, took)
	}
}

// TestReplicatedNotSent is refused a connection.
func TestReplicatedNotSent(t *testing.T) {
	// rueidis.NewClient wants a server, so there is one until then.
	server := redistest.Start(t)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}}))
	server.Kill()
	_, _, err := d.EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 1, time.Second)
	checkError(t, err, driver.Error{Transient: true})
}

// TestReplicatedReadTimeout waits longer than the client wants to wait for an
// answer. Were the wait cut short, the one replica would not be known.
func TestReplicatedReadTimeout(t *testing.T) {
	servers := redistest.StartReplicated(t, 1)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{servers.Primary.Addr()}, ConnWriteTimeout: 500 * time.Millisecond}))
	reply, acknowledged, err := d.EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 2, 1500*time.Millisecond)
	if reply != int64(1) || acknowledged != 1 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 1 and 1", reply, acknowledged, err)
	}
}

// TestReplicatedForbidden uses a user who may not WAIT.
func TestReplicatedForbidden(t *testing.T) {
	servers := redistest.StartReplicated(t, 1)
	servers.Primary.Cli(t, "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-wait")
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{servers.Primary.Addr()}, Username: "limited", Password: "pw"}))
	for want := range int64(2) {
		reply, acknowledged, err := d.EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 1, time.Second)
		if reply != want+1 || acknowledged != 0 || err != nil {
			t.Errorf("got %v, %d acknowledged, %v, want %d and none", reply, acknowledged, err, want+1)
		}
	}
}

// blind is a cluster client that does not know its nodes.
type blind struct{ rueidis.Client }

func (blind) Nodes() map[string]rueidis.Client { return nil }

// TestReplicatedRedirected sends calls to a node that refers to another. The
// acknowledgements are those of the other's replica.
func TestReplicatedRedirected(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 1)
	_, replicas := cluster.Roles(t)
	redirections := map[string]func(testing.TB, *redistest.Cluster, string) *redistest.Server{
		"MOVED": moveSlot, "ASK": migrateSlot,
	}
	for name, redirect := range redirections {
		for _, mode := range []string{"acknowledged", "suspended", "unknown node"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				key := fmt.Sprintf("{%s %s}", name, mode)
				client := connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
				d := New(client)
				if mode == "unknown node" {
					d = New(blind{client})
				}
				call := driver.Call{Script: incr, Keys: []string{key}}
				if _, err := d.Eval(t.Context(), call); err != nil { // so that the slots are known
					t.Fatal(err)
				}
				cluster.NodeFor(t, key).Cli(t, "DEL", key)
				to := redirect(t, cluster, key)
				to.Cli(t, "SCRIPT", "FLUSH")
				want, timeout := 1, noticed
				switch replica := replicaOf(t, to, replicas); mode {
				case "suspended":
					replica.Stop()
					defer replica.Cont()
					want, timeout = 0, 500*time.Millisecond
				case "unknown node":
					want = 0
				}
				ctx, cancel := context.WithTimeout(t.Context(), noticed)
				defer cancel()
				reply, acknowledged, err := d.EvalReplicated(ctx, call, 1, timeout)
				if reply != int64(1) || acknowledged != want || err != nil {
					t.Errorf("got %v, %d acknowledged, %v, want 1 and %d", reply, acknowledged, err, want)
				}
			})
		}
	}
}

// replicaOf returns the replica of a primary.
func replicaOf(t testing.TB, primary *redistest.Server, replicas []*redistest.Server) *redistest.Server {
	t.Helper()
	for _, replica := range replicas {
		role := strings.Fields(replica.Cli(t, "ROLE"))
		if net.JoinHostPort(role[1], role[2]) == primary.Addr() {
			return replica
		}
	}
	t.Fatalf("%s has no replica", primary.Addr())
	return nil
}
