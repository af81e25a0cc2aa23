package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// CheckOnce loses replies of a server, and checks that no script is sent again.
func CheckOnce(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Start(t)
	loseReplies(t, open, single(server), func(string) *redistest.Server { return server }, checkOnce)
}

// CheckOnceOnCluster is [CheckOnce] on a cluster.
func CheckOnceOnCluster(t *testing.T, open Open) {
	t.Helper()
	cluster := redistest.StartCluster(t, 3, 0)
	owner := func(key string) *redistest.Server { return cluster.NodeFor(t, key) }
	loseReplies(t, open, clustered(cluster), owner, checkOnce)
}

func testReplicatedOnce(t *testing.T, open Open) {
	primary := redistest.StartReplicated(t, 1).Primary
	loseReplies(t, open, single(primary), func(string) *redistest.Server { return primary }, checkReplicatedOnce)
}

func testReplicatedOnceOnCluster(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 1)
	owner := func(key string) *redistest.Server { return cluster.NodeFor(t, key) }
	loseReplies(t, open, clustered(cluster), owner, checkReplicatedOnce)
}

// lossy is a driver whose connections to one server lose replies.
type lossy struct {
	driver.Driver

	call  driver.Call // to that server; its script is known there, and has run once
	proxy *redistest.Proxy
	then  redistest.Aftermath
}

// loseReplies runs check once for each way to lose a reply of the server that owns a
// key. The script must have run there as often as check returns.
func loseReplies(
	t *testing.T, open Open, at Endpoint, owner func(key string) *redistest.Server,
	check func(*testing.T, lossy) (ran string),
) {
	t.Helper()
	for name, then := range map[string]redistest.Aftermath{
		"silence": redistest.ThenSilence, "reset": redistest.ThenReset,
	} {
		t.Run(name, func(t *testing.T) {
			at := at
			if then == redistest.ThenSilence {
				at.ReplyTimeout = 3 * time.Second // after a reset the client must not need it
			}
			key := unique("once")
			server := owner(key)
			proxy := redistest.NewProxy(t, server.Addr())
			d := open(t, at.through(server, proxy))
			call := driver.Call{Script: incr, Keys: []string{key}}
			if _, err := d.Eval(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			want := check(t, lossy{d, call, proxy, then})
			proxy.Cut()
			if got := server.Cli(t, "GET", key); got != want {
				t.Errorf("the script has run %s times, want %s", got, want)
			}
		})
	}
}

// checkOnce loses the reply to a script.
func checkOnce(t *testing.T, d lossy) (ran string) {
	evalsha := redistest.Command("EVALSHA")
	before := d.proxy.Requests(evalsha)
	replied := d.proxy.SwallowNextReply(evalsha, d.then)
	_, err := d.Eval(t.Context(), d.call)
	CheckError(t, "lost", err, driver.Error{MayHaveRun: true, Transient: true})
	<-replied
	if sent := d.proxy.Requests(evalsha) - before; sent != 1 {
		t.Errorf("%d EVALSHA sent", sent)
	}
	return "2"
}

// checkReplicatedOnce loses the reply to a script, and then that to a WAIT. The
// script's reply survives the loss of the other.
func checkReplicatedOnce(t *testing.T, d lossy) (ran string) {
	evalsha := redistest.Command("EVALSHA")
	wait := func(request []byte) bool { // the call's, with its timeout: an adapter may try a new connection with another
		args := redistest.Args(request)
		return len(args) == 3 && strings.EqualFold(args[0], "WAIT") && args[2] == strconv.FormatInt(short.Milliseconds(), 10)
	}
	before := d.proxy.Requests(evalsha)
	replied := d.proxy.SwallowNextReply(evalsha, d.then)
	_, _, err := d.EvalReplicated(t.Context(), d.call, 1, short)
	CheckError(t, "lost", err, driver.Error{MayHaveRun: true, Transient: true})
	<-replied
	replied = d.proxy.SwallowNextReply(wait, d.then)
	reply, acknowledged, err := d.EvalReplicated(t.Context(), d.call, 0, short)
	<-replied
	if reply != int64(3) || acknowledged != 0 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 3 and none", reply, acknowledged, err)
	}
	if sent := d.proxy.Requests(evalsha) - before; sent != 2 {
		t.Errorf("%d EVALSHA sent for two calls", sent)
	}
	return "3"
}

// testRefused makes calls to a server that is gone.
func testRefused(t *testing.T, open Open) {
	server := redistest.Start(t)
	d := open(t, single(server))
	server.Kill()
	call := driver.Call{Script: incr, Keys: []string{unique("refused")}}
	// The client may have connected before, and must then notice the end.
	eventually(t, "a refusal", func() bool {
		_, err := d.Eval(t.Context(), call)
		var got *driver.Error
		return errors.As(err, &got) && !got.MayHaveRun && got.Transient
	})
	_, _, err := d.EvalReplicated(t.Context(), call, 1, time.Second)
	CheckError(t, "refused", err, driver.Error{Transient: true})
}

// testReplyTimeout has WAIT take longer than the client waits for other replies.
// Were the wait cut short, the one replica would not be known.
func testReplyTimeout(t *testing.T, open Open) {
	at := single(redistest.StartReplicated(t, 1).Primary)
	at.ReplyTimeout = time.Second
	call := driver.Call{Script: incr, Keys: []string{unique("reply-timeout")}}
	reply, acknowledged, err := open(t, at).EvalReplicated(t.Context(), call, 2, 2500*time.Millisecond)
	if reply != int64(1) || acknowledged != 1 || err != nil {
		t.Errorf("got %v, %d acknowledged, %v, want 1 and 1", reply, acknowledged, err)
	}
}

// testForbiddenWait uses a user who may not WAIT.
func testForbiddenWait(t *testing.T, open Open) {
	primary := redistest.StartReplicated(t, 1).Primary
	d := open(t, limited(t, primary, "-wait"))
	call := driver.Call{Script: incr, Keys: []string{unique("forbidden")}}
	for want := int64(1); want <= 2; want++ {
		reply, acknowledged, err := d.EvalReplicated(t.Context(), call, 1, time.Second)
		if reply != want || acknowledged != 0 || err != nil {
			t.Errorf("got %v, %d acknowledged, %v, want %d and none", reply, acknowledged, err, want)
		}
	}
}

// limited makes a user who may do everything but what the rules say.
func limited(t testing.TB, server *redistest.Server, rules ...string) Endpoint {
	t.Helper()
	server.Cli(t, append([]string{"ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all"}, rules...)...)
	at := single(server)
	at.Username, at.Password = "limited", "pw"
	return at
}

// CheckRedirected checks that EvalReplicated follows MOVED and ASK to a node with one
// replica. acknowledgements is what the adapter then reports: 1, or 0 if it cannot
// send WAIT to that node. While the replica is suspended it reports 0 in any case.
func CheckRedirected(t *testing.T, open Open, acknowledgements int) {
	t.Helper()
	cluster := redistest.StartCluster(t, 3, 1)
	_, replicas := cluster.Roles(t)
	for _, redirection := range []string{"MOVED", "ASK"} {
		for _, suspended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s suspended=%t", redirection, suspended), func(t *testing.T) {
				d := open(t, clustered(cluster))
				call := driver.Call{Script: incr, Keys: []string{unique("redirected")}}
				key := call.Keys[0]
				if _, err := d.Eval(t.Context(), call); err != nil { // so that the slots are known
					t.Fatal(err)
				}
				cluster.NodeFor(t, key).Cli(t, "DEL", key)
				move := cluster.BeginMove(t, key)
				to := importer(t, cluster, key)
				if redirection == "MOVED" {
					move.Finish(t)
				}
				to.Cli(t, "SCRIPT", "FLUSH")
				want, timeout := acknowledgements, noticed
				if suspended {
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

// importer returns the node that a key's slot is on its way to.
func importer(t testing.TB, cluster *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	primaries, _ := cluster.Roles(t)
	mark := "[" + primaries[0].Cli(t, "CLUSTER", "KEYSLOT", key) + "-<-"
	for _, node := range primaries {
		if strings.Contains(node.Cli(t, "CLUSTER", "NODES"), mark) {
			return node
		}
	}
	t.Fatalf("no node gets the slot of %s", key)
	return nil
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

// told is a driver.Late that passes on the reply or the error.
type told chan any

func (t told) Tell(reply any, err error) { t <- cmp.Or[any](err, reply) }

// testGivenUp checks that a call whose context ends returns within half a second, though its reply is
// still on its way, and that Late is told what came of it if the error says so.
func testGivenUp(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := open(t, single(server).through(server, proxy))
	key := unique("given up")
	count(t, d, key, 1) // so that there is a connection, and the script is known
	const delay = time.Second
	proxy.Delay(redistest.ToClient, delay)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(50*time.Millisecond, cancel)
	late := make(told, 1)
	start := time.Now()
	_, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{key}, Late: late})
	if took := time.Since(start); took >= delay*9/10 { // half a second, on a busy machine
		t.Errorf("took %v", took)
	}
	CheckError(t, "cancelled", err, driver.Error{MayHaveRun: true, Transient: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	var failed *driver.Error
	if errors.As(err, &failed) && failed.Pending {
		select {
		case outcome := <-late:
			if outcome != int64(2) {
				t.Errorf("Late was told %v, want 2", outcome)
			}
		case <-time.After(limit):
			t.Error("Late was not told")
		}
	}
	proxy.Delay(redistest.ToClient, 0)
	count(t, d, key, 3)
}
