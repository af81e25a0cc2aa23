package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// door is how a client's connections are made. Where new ones lead can be changed.
type door struct {
	to    atomic.Pointer[string]
	dials atomic.Int32
}

// through leads the connections to one server through the door, which leads to addr.
func (d *door) through(server *redistest.Server, addr string) Endpoint {
	at := single(server)
	d.to.Store(&addr)
	at.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		d.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, *d.to.Load())
	}
	at.PoolSize = 128
	return at
}

// leaveIdle has the driver's client have so many connections that nobody uses, to the server of a key. A call that waits
// for replicas has one to itself.
func leaveIdle(t *testing.T, d driver.Driver, key string, n int) {
	t.Helper()
	call := driver.Call{Script: incr, Keys: []string{key}}
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			if _, _, err := d.EvalReplicated(testContext(t), call, 10, 300*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

// manyAtOnce makes many calls at once, at many keys. Some clients bound what they wait for only as long as a connection
// carries one call at a time.
func manyAtOnce(t *testing.T, d driver.Driver) {
	t.Helper()
	for range 20 {
		var calls sync.WaitGroup
		for range 64 {
			calls.Go(func() {
				if _, err := ask(t, d, driver.Call{Script: get, Keys: []string{unique("many")}}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
}

// spoiled are the connections that are open when they cease to lead to a primary.
var spoiled = []int{0, 30, 100}

// attempt makes a call.
type attempt func(ctx context.Context, d driver.Driver, call driver.Call) (any, error)

// attempts are the ways to make a call.
var attempts = map[string]attempt{
	"Eval": func(ctx context.Context, d driver.Driver, call driver.Call) (any, error) { return d.Eval(ctx, call) },
	"EvalReplicated": func(ctx context.Context, d driver.Driver, call driver.Call) (any, error) {
		reply, _, err := d.EvalReplicated(ctx, call, 0, time.Millisecond)
		return reply, err
	},
}

// secondAttempt makes calls until one fails, and then one that must not: it is to use a new connection. A
// client may make new connections before one fails. On a busy machine the search for one may take too long among many that
// are dead, so it may fail twice more: who tries one dead connection after another needs more than that.
func (a attempt) secondAttempt(t *testing.T, d driver.Driver, key string) {
	t.Helper()
	call := driver.Call{Script: incr, Keys: []string{key}}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, first := a(ctx, d, call)
		cancel()
		if first == nil {
			continue
		}
		var failed *driver.Error
		if !errors.As(first, &failed) || !failed.Transient {
			t.Errorf("the first attempt: %v", first)
		}
		_, err := a(testContext(t), d, call)
		for more := 0; err != nil && more < 2; more++ {
			t.Logf("the next attempt: %v", err)
			_, err = a(testContext(t), d, call)
		}
		if err != nil {
			t.Errorf("the last attempt: %v; the first: %v", err, first)
		}
		return
	}
}

// testForgotten has all connections to one server fall silent, while new ones work: a firewall has forgotten them.
func testForgotten(t *testing.T, open Open) {
	server := redistest.Start(t)
	forgotten(t, open, single(server), server)
}

// testForgottenOnCluster is testForgotten on a cluster.
func testForgottenOnCluster(t *testing.T, open Open) {
	cluster := redistest.StartCluster(t, 3, 0)
	forgotten(t, open, clustered(cluster), cluster.Nodes...)
}

func forgotten(t *testing.T, open Open, at Endpoint, servers ...*redistest.Server) {
	t.Helper()
	at.PoolSize = 128
	for name, attempt := range attempts {
		for _, n := range spoiled {
			t.Run(fmt.Sprint(name, " idle=", n), func(t *testing.T) {
				t.Parallel()
				firewall, at := redistest.NewFirewall(t, servers...), at
				at.Dial = firewall.Dial
				d := open(t, at)
				manyAtOnce(t, d)
				key := unique("forgotten")
				leaveIdle(t, d, key, n)
				firewall.Forget()
				defer firewall.Cut() // go-redis does not close a client that reads from a silent connection
				for _, key := range []string{key, unique("forgotten"), unique("forgotten")} {
					attempt.secondAttempt(t, d, key)
				}
			})
		}
	}
}

// testAddressMoved has a replica take over, and the address lead there. The connections stay open, to the server that
// is a replica now.
func testAddressMoved(t *testing.T, open Open) {
	for name, attempt := range attempts {
		for _, n := range spoiled {
			t.Run(fmt.Sprint(name, " idle=", n), func(t *testing.T) {
				t.Parallel()
				servers := redistest.StartReplicated(t, 1)
				old, promoted := servers.Primary, servers.Replicas[0]
				var door door
				d := open(t, door.through(old, old.Addr()))
				key := unique("moved")
				count(t, d, key, 1)
				leaveIdle(t, d, unique("idle"), n)
				host, port, err := net.SplitHostPort(promoted.Addr())
				if err != nil {
					t.Fatal(err)
				}
				promoted.Cli(t, "REPLICAOF", "NO", "ONE")
				old.Cli(t, "REPLICAOF", host, port)
				addr := promoted.Addr()
				door.to.Store(&addr)
				attempt.secondAttempt(t, d, key)
			})
		}
	}
}

// answeredAfterPauses makes calls after the first failure, with pauses in between. It fails if a call fails: each must use a
// connection that has answered. Nothing but time passes in a pause.
func answeredAfterPauses(t *testing.T, d driver.Driver, key string) {
	t.Helper()
	for _, pause := range []time.Duration{0, 1500 * time.Millisecond, 300 * time.Millisecond, 2500 * time.Millisecond} {
		time.Sleep(pause) // what is observed is that nothing else is needed
		for name, attempt := range attempts {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			_, err := attempt(ctx, d, driver.Call{Script: incr, Keys: []string{key}})
			cancel()
			if err != nil {
				t.Errorf("%s, %v later: %v", name, pause, err)
			}
		}
	}
}

// testDoubt makes connections fall silent, or lead to a replica, for the rest of the test. The calls after the first failure use
// other connections, however long the pauses between them are.
func testDoubt(t *testing.T, open Open) {
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		silentForLong(t, open, single(server), server)
	})
	t.Run("silent cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0)
		silentForLong(t, open, clustered(cluster), cluster.Nodes...)
	})
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		servers := redistest.StartReplicated(t, 1)
		leadElsewhere(t, open, single(servers.Primary), servers)
	})
	t.Run("replica, few rights", func(t *testing.T) {
		t.Parallel()
		if !redistest.AtLeast(t, 7, 0) {
			t.Skip("before Redis 7.0 a replica shows itself only by refusing commands that need further rights")
		}
		servers := redistest.StartReplicated(t, 1)
		for _, replica := range servers.Replicas {
			limited(t, replica, "-wait")
		}
		leadElsewhere(t, open, limited(t, servers.Primary, "-wait"), servers)
	})
}

func silentForLong(t *testing.T, open Open, at Endpoint, servers ...*redistest.Server) {
	t.Helper()
	firewall := redistest.NewFirewall(t, servers...)
	at.Dial = firewall.Dial
	d := open(t, at)
	manyAtOnce(t, d)
	firewall.Forget()
	defer firewall.Cut() // go-redis does not close a client that reads from a silent connection
	key := unique("silent")
	attempts["Eval"].secondAttempt(t, d, key)
	answeredAfterPauses(t, d, key)
}

// leadElsewhere promotes a replica, and makes new connections lead there.
func leadElsewhere(t *testing.T, open Open, at Endpoint, servers *redistest.Replicated) {
	t.Helper()
	old, promoted := servers.Primary, servers.Replicas[0]
	var door door
	through := door.through(old, old.Addr())
	at.Dial, at.PoolSize = through.Dial, through.PoolSize
	d := open(t, at)
	manyAtOnce(t, d)
	host, port, err := net.SplitHostPort(promoted.Addr())
	if err != nil {
		t.Fatal(err)
	}
	promoted.Cli(t, "REPLICAOF", "NO", "ONE")
	old.Cli(t, "REPLICAOF", host, port)
	addr := promoted.Addr()
	door.to.Store(&addr)
	key := unique("elsewhere")
	attempts["Eval"].secondAttempt(t, d, key)
	answeredAfterPauses(t, d, key)
}

// testSilentFailover makes all connections fall silent, including those to the Sentinels, while another server becomes the primary.
// The old one stays a primary for about ten seconds, or is gone. A call that is answered after the failover must have taken effect at
// the new one.
func testSilentFailover(t *testing.T, open Open) {
	for name, fails := range map[string]func(testing.TB, *redistest.Sentinel) *redistest.Server{
		"ordered": func(t testing.TB, s *redistest.Sentinel) *redistest.Server { return s.Failover(t) },
		"killed": func(t testing.TB, s *redistest.Sentinel) *redistest.Server {
			return s.WaitNewPrimary(t, s.KillPrimary(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t, 1, 3)
			firewall, at := redistest.NewFirewall(t, append(sentinel.Sentinels, sentinel.Nodes...)...), behind(sentinel)
			at.Dial, at.ReplyTimeout = firewall.Dial, time.Second
			d := open(t, at)
			l, r := listenTo(t, d)
			channel := unique("failover")
			l.Subscribe(channel)
			r.awaitSubscribed(t, channel, 1)
			manyAtOnce(t, d)
			firewall.Forget()
			defer firewall.Cut()
			promoted := fails(t, sentinel)
			key := unique("failover")
			attempts["Eval"].secondAttempt(t, d, key)
			answeredAfterPauses(t, d, key)
			before := promoted.Cli(t, "GET", key)
			if _, err := d.Eval(testContext(t), driver.Call{Script: incr, Keys: []string{key}}); err != nil {
				t.Error(err)
			}
			if after := promoted.Cli(t, "GET", key); before == "" || after == before {
				t.Errorf("the key is %q at the new primary, after one more call %q", before, after)
			}
			deliver(t, d, r, channel)
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 1)
		firewall, at := redistest.NewFirewall(t, cluster.Nodes...), clustered(cluster)
		at.Dial, at.ReplyTimeout = firewall.Dial, time.Second
		d := open(t, at)
		manyAtOnce(t, d)
		firewall.Forget()
		defer firewall.Cut()
		key := unique("failover")
		old := cluster.NodeFor(t, key)
		old.Kill()
		cluster.WaitNewNodeFor(t, key, old)
		within(t, limit, "the client has looked up the nodes", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{key}})
			return err == nil
		})
		answeredAfterPauses(t, d, key)
	})
}

// testRefusedThenNew has a server refuse a call as one that is not the primary, or not yet. The next call uses a new
// connection; as long as nothing fails, none is made.
func testRefusedThenNew(t *testing.T, open Open) {
	server := redistest.Start(t)
	for _, refusal := range []string{"READONLY", "LOADING", "MASTERDOWN", "OOM"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			var door door
			d := open(t, door.through(server, server.Addr()))
			key := unique("refused")
			for want := range 20 {
				count(t, d, key, int64(want+1))
			}
			before := door.dials.Load()
			for want := range 20 {
				count(t, d, key, int64(want+21))
			}
			if made := door.dials.Load() - before; made != 0 {
				t.Errorf("%d connections were made before anything failed", made)
			}
			_, err := d.Eval(testContext(t), driver.Call{Script: fail, Keys: []string{key}, Args: []string{refusal + " on purpose"}})
			CheckError(t, "refused", err, driver.Error{Code: refusal, Transient: true})
			count(t, d, key, 41)
			if made := door.dials.Load() - before; (made > 0) == (refusal == "OOM") {
				t.Errorf("%d connections were made after %s", made, refusal)
			}
		})
	}
}

// testSilentSentinel has one sentinel after the other fall silent, and the connections to the primary lost. As long as one
// answers that knows the primary, calls are answered. The client's timeouts bound how long it waits for each.
func testSilentSentinel(t *testing.T, open Open) {
	sentinel := redistest.StartSentinel(t, 1, 3)
	at := behind(sentinel)
	at.ReplyTimeout = time.Second
	d := open(t, at)
	key := unique("silent")
	count(t, d, key, 1)
	primary := sentinel.Primary(t)
	for _, silent := range sentinel.Sentinels[:2] {
		silent.Stop()
		defer silent.Cont()
		primary.Cli(t, "CLIENT", "KILL", "TYPE", "normal")
		primary.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
		within(t, noticed, "a call is answered", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := d.Eval(ctx, driver.Call{Script: incr, Keys: []string{key}})
			return err == nil
		})
	}
}

// CheckClosed checks that a driver says, soon after its client was closed, that calls fail for good.
func CheckClosed(t testing.TB, d driver.Driver) {
	t.Helper()
	within(t, limit, "the client is said to be closed", func() bool {
		_, err := d.Eval(testContext(t), driver.Call{Script: incr, Keys: []string{"k"}})
		var failed *driver.Error // or none: a client may close its connections a little later
		return errors.As(err, &failed) && !failed.Transient && strings.Contains(err.Error(), "closed the Redis client")
	})
}
