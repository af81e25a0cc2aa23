package goredisdriver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// checkReplicatedOnce loses the reply to the script, and then that to WAIT, of
// calls that a client makes through the proxy. The script runs once a call, and
// its reply survives the loss of the other.
func checkReplicatedOnce(t *testing.T, rdb redis.UniversalClient, proxy *redistest.Proxy, key string, then redistest.Aftermath) {
	t.Helper()
	d := New(opened(t, rdb))
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
	proxy.Cut()
	ran = proxy.SwallowNextReply(wait, then)
	reply, acknowledged, err := d.EvalReplicated(t.Context(), call, 0, 100*time.Millisecond)
	<-ran
	if reply != int64(3) || acknowledged != 0 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 3 and none", reply, acknowledged, err)
	}
	if sent := proxy.Requests(evalsha) - before; sent != 2 {
		t.Errorf("%d EVALSHA sent for two calls", sent)
	}
	proxy.Cut()
	if got := rdb.Get(t.Context(), key).Val(); got != "3" {
		t.Errorf("the script ran %s times in three calls", got)
	}
}

func TestReplicatedOnceOnSingle(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 1)
	for name, then := range aftermaths {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, servers.Primary.Addr())
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 500 * time.Millisecond})
			checkReplicatedOnce(t, rdb, proxy, name, then)
		})
	}
}

func TestReplicatedOnceOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	for name, then := range aftermaths {
		t.Run(name, func(t *testing.T) {
			owner := cluster.NodeFor(t, name).Addr()
			proxy := redistest.NewProxy(t, owner)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Addrs(), ReadTimeout: 500 * time.Millisecond,
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == owner {
						addr = proxy.Addr()
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				},
			})
			checkReplicatedOnce(t, rdb, proxy, name, then)
		})
	}
}

// TestReplicatedPipelined checks that WAIT does not wait for the script's reply.
func TestReplicatedPipelined(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := New(opened(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 500 * time.Millisecond})))
	call := driver.Call{Script: incr, Keys: []string{"k"}}
	if _, err := d.Eval(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole(redistest.ToClient, true)
	_, _, err := d.EvalReplicated(t.Context(), call, 0, time.Millisecond)
	checkError(t, err, driver.Error{MayHaveRun: true, Transient: true})
	if sent := proxy.Requests(redistest.Command("WAIT")); sent != 1 {
		t.Errorf("%d WAIT sent", sent)
	}
}

// TestReplicatedNotSent tells failures apart in which nothing was sent.
func TestReplicatedNotSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nobody := redistest.Start(t)
	nobody.Kill()
	cases := map[string]struct {
		rdb  redis.UniversalClient
		want driver.Error
	}{
		"refused":         {redis.NewClient(&redis.Options{Addr: nobody.Addr()}), driver.Error{Transient: true}},
		"cluster refused": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody.Addr()}}), driver.Error{Transient: true}},
		"ring":            {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}), driver.Error{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := New(opened(t, c.rdb)).EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 1, time.Second)
			checkError(t, err, c.want)
		})
	}
}

// TestReplicatedReadTimeout waits longer than the client wants to wait for an
// answer. Were the wait cut short, the one replica would not be known.
func TestReplicatedReadTimeout(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 1)
	d := New(opened(t, redis.NewClient(&redis.Options{Addr: servers.Primary.Addr(), ReadTimeout: 500 * time.Millisecond})))
	reply, acknowledged, err := d.EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 2, 1500*time.Millisecond)
	if reply != int64(1) || acknowledged != 1 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 1 and 1", reply, acknowledged, err)
	}
}

// TestReplicatedForbidden uses a user who may not WAIT.
func TestReplicatedForbidden(t *testing.T) {
	t.Parallel()
	servers := redistest.StartReplicated(t, 1)
	servers.Primary.Cli(t, "ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-wait")
	d := New(opened(t, redis.NewClient(&redis.Options{Addr: servers.Primary.Addr(), Username: "limited", Password: "pw"})))
	for want := range int64(2) {
		reply, acknowledged, err := d.EvalReplicated(t.Context(), driver.Call{Script: incr, Keys: []string{"k"}}, 1, time.Second)
		if reply != want+1 || acknowledged != 0 || err != nil {
			t.Errorf("got %v, %d acknowledged, %v, want %d and none", reply, acknowledged, err, want+1)
		}
	}
}

// TestReplicatedRedirected sends calls to a node that refers to another. The
// acknowledgements are those of the other's replica.
func TestReplicatedRedirected(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	_, replicas := cluster.Roles(t)
	redirections := map[string]func(testing.TB, *redistest.Cluster, string) *redistest.Server{
		"MOVED": moveSlot, "ASK": migrateSlot,
	}
	for name, redirect := range redirections {
		for _, mode := range []string{"acknowledged", "suspended"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				key := fmt.Sprintf("{%s %s}", name, mode)
				rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
				d := New(opened(t, rdb))
				call := driver.Call{Script: incr, Keys: []string{key}}
				if _, err := d.Eval(t.Context(), call); err != nil { // so that the slots are known
					t.Fatal(err)
				}
				cluster.NodeFor(t, key).Cli(t, "DEL", key)
				to := redirect(t, cluster, key)
				to.Cli(t, "SCRIPT", "FLUSH")
				want, timeout := 1, noticed
				if mode == "suspended" {
					replica := replicaOf(t, to, replicas)
					replica.Stop()
					defer replica.Cont()
					want, timeout = 0, 500*time.Millisecond
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
