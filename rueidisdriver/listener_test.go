package rueidisdriver

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// eventually polls until done, and fails the test if that takes too long.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

// listenTo returns a listener that subscribes to channels, once they are confirmed.
func listenTo(t *testing.T, d *Driver, channels ...string) (driver.Listener, eventCounts) {
	t.Helper()
	counts := make(eventCounts)
	for _, channel := range channels {
		counts[channel] = new(struct{ subscribed, messages atomic.Int32 })
	}
	l := d.Listen(counts.sink)
	t.Cleanup(l.Close)
	for _, channel := range channels {
		l.Subscribe(channel)
	}
	counts.await(t, "first", 1, 0)
	return l, counts
}

func subscribers(t *testing.T, server *redistest.Server, channel string) string {
	t.Helper()
	return strings.TrimSpace(strings.TrimPrefix(server.Cli(t, "PUBSUB", "NUMSUB", channel), channel))
}

// failSnapshots has the server refuse writes and PING with MISCONF. It returns how to end that.
func failSnapshots(t *testing.T, server *redistest.Server) (repair func()) {
	t.Helper()
	dir := strings.TrimSpace(strings.TrimPrefix(server.Cli(t, "CONFIG", "GET", "dir"), "dir"))
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o755); err != nil {
		t.Fatal(err)
	}
	server.Cli(t, "CONFIG", "SET", "save", "3600 1")
	server.Cli(t, "BGSAVE")
	eventually(t, "a snapshot fails", func() bool {
		return strings.Contains(server.Cli(t, "INFO", "persistence"), "rdb_last_bgsave_status:err")
	})
	return func() { server.Cli(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }
}

// TestUnsubscribeMISCONF unsubscribes while the server refuses the PING that rueidis sends behind
// UNSUBSCRIBE, at which it would panic.
func TestUnsubscribeMISCONF(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}}))
	l, counts := listenTo(t, d, "kept", "ended", "again")
	repair := failSnapshots(t, server)
	l.Unsubscribe("ended")
	l.Unsubscribe("again")
	time.Sleep(2 * pingInterval) // what is observed is that nothing happens
	if got := subscribers(t, server, "ended"); got != "1" {
		t.Errorf("%s subscribers of what cannot be unsubscribed", got)
	}
	l.Subscribe("again")
	eventually(t, "confirmed again", func() bool { return counts["again"].subscribed.Load() == 2 })
	for channel := range counts {
		server.Cli(t, "PUBLISH", channel, "message")
	}
	eventually(t, "messages", func() bool { return counts["kept"].messages.Load()+counts["again"].messages.Load() == 2 })
	if counts["ended"].messages.Load() != 0 || counts["kept"].subscribed.Load() != 1 {
		t.Error("a message of a channel that is not wanted, or the connection was lost")
	}
	repair()
	eventually(t, "unsubscribed", func() bool { return subscribers(t, server, "ended") == "0" })
	if got := subscribers(t, server, "again"); got != "1" {
		t.Errorf("%s subscribers of what is wanted again", got)
	}
	if got := counts["again"].subscribed.Load(); got != 2 {
		t.Errorf("%d confirmations of what was wanted again once", got)
	}
}

// TestUnsubscribeBusy unsubscribes while the server refuses both UNSUBSCRIBE and the PING behind it, as a script takes
// too long, at which rueidis would panic; and not long after it has answered a PING.
func TestUnsubscribeBusy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("lua-time-limit 1"))
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}}))
	l, counts := listenTo(t, d, "kept", "first", "second")
	l.Unsubscribe("first")
	eventually(t, "unsubscribed", func() bool { return subscribers(t, server, "first") == "0" })
	var script sync.WaitGroup
	script.Go(func() {
		if _, err := server.Ask(20*time.Second, "EVAL", "while true do end", "0"); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the script ended with %v", err)
		}
	})
	eventually(t, "the server is busy", func() bool {
		_, err := server.Ask(time.Second, "PING")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	l.Unsubscribe("second")
	time.Sleep(300 * time.Millisecond) // for so long the server stays busy
	if _, err := server.Ask(time.Second, "SCRIPT", "KILL"); err != nil {
		t.Error(err)
	}
	script.Wait()
	eventually(t, "unsubscribed", func() bool { return subscribers(t, server, "second") == "0" })
	if got := counts["kept"].subscribed.Load(); got != 1 {
		t.Errorf("%d confirmations: the connection was lost", got)
	}
}

// TestEndMISCONF lets the server begin to refuse PING between the listener's and rueidis's.
func TestEndMISCONF(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := New(connect(t, rueidis.ClientOption{
		InitAddress: []string{server.Addr()},
		Dialer:      net.Dialer{KeepAlive: time.Hour}, // rueidis's own PING, after a second of silence, would be refused as well
	}))
	client, _ := d.client.Dedicate()
	lost := client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	subscribe := client.B().Subscribe().Channel("channel").Build().Pin()
	if err := client.Do(t.Context(), subscribe).Error(); err != nil {
		t.Fatal(err)
	}
	failSnapshots(t, server)
	result := client.Do(t.Context(), client.B().Unsubscribe().Channel("channel").Build().Pin())
	if ended(result) {
		t.Fatalf("UNSUBSCRIBE: %v", result.Error())
	}
	end(client)
	<-lost
	eventually(t, "the connection is closed", func() bool { return subscribers(t, server, "channel") == "0" })
}

// TestCloseSilent checks that no goroutine is left behind when the server does not answer.
func TestCloseSilent(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}))
	l, _ := listenTo(t, d, "channel")
	proxy.BlackHole(redistest.ToClient, true)
	start := time.Now()
	l.Close()
	l.(*listener).goroutines.Wait()
	if took := time.Since(start); took > 2*closeLimit {
		t.Errorf("Close took %v", took)
	}
	eventually(t, "the connection is closed", func() bool { return subscribers(t, server, "channel") == "0" })
}

// TestFewestRights unsubscribes as a user who may use neither PING nor ECHO.
func TestFewestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := []string{"ACL", "SETUSER", "limited", "on", ">secret", "+subscribe", "+unsubscribe", "+client"}
	if redistest.AtLeast(t, 6, 2) { // before that every channel is everybody's
		rights = append(rights, "allchannels")
	}
	server.Cli(t, rights...)
	d := New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "limited", Password: "secret"}))
	l, counts := listenTo(t, d, "kept", "ended")
	l.Unsubscribe("ended")
	eventually(t, "unsubscribed", func() bool { return subscribers(t, server, "ended") == "0" })
	time.Sleep(2 * pingInterval) // what is observed is that nothing happens
	l.Close()
	if got := counts["kept"].subscribed.Load(); got != 1 {
		t.Errorf("%d confirmations: the connection was lost", got)
	}
}

// TestCloseHello closes while a server has taken a connection and says nothing.
func TestCloseHello(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	const dialTimeout = 4 * time.Second
	client := connect(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, Dialer: net.Dialer{Timeout: dialTimeout}})
	proxy.BlackHole(redistest.ToClient, true)
	l := New(client).Listen(func(driver.Event) { t.Error("an event") }).(*listener)
	l.Subscribe("channel")
	eventually(t, "HELLO is sent", func() bool { return proxy.Requests(redistest.Command("HELLO")) == 2 })
	start := time.Now()
	l.Close()
	if took := time.Since(start); took > dialTimeout/2 {
		t.Errorf("Close took %v", took)
	}
	l.goroutines.Wait() // they end by themselves
}

// TestLostAtOnce checks that the end of a connection is noticed without a PING.
func TestLostAtOnce(t *testing.T) {
	server := redistest.Start(t)
	_, counts := listenTo(t, New(connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})), "channel")
	start := time.Now()
	server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
	counts.await(t, "after the connection was lost", 2, 0)
	if took := time.Since(start); took > pingInterval {
		t.Errorf("it took %v", took)
	}
}

// TestNotDelivered looks at each reason not to deliver an event.
func TestNotDelivered(t *testing.T) {
	for name, spoil := range map[string]func(*listener, *conn, *subscription){
		"nothing":               func(*listener, *conn, *subscription) {},
		"listener closed":       func(l *listener, _ *conn, _ *subscription) { l.closed = true },
		"connection ended":      func(_ *listener, c *conn, _ *subscription) { c.ended = true },
		"on another connection": func(_ *listener, _ *conn, s *subscription) { s.conn = new(conn) },
		"not wanted":            func(_ *listener, _ *conn, s *subscription) { s.wanted = false },
		"unknown":               func(l *listener, _ *conn, _ *subscription) { clear(l.subscriptions) },
	} {
		delivered := false
		l := &listener{sink: func(driver.Event) { delivered = true }}
		c := &conn{listener: l}
		s := &subscription{channel: "channel", conn: c, wanted: true}
		l.subscriptions = map[string]*subscription{"channel": s}
		spoil(l, c, s)
		c.message(rueidis.PubSubMessage{Channel: "channel"})
		if delivered != (name == "nothing") {
			t.Errorf("%s: delivered %t", name, delivered)
		}
	}
}

// TestQueuedOnce has what is wanted change again and again before the writer sends it.
func TestQueuedOnce(t *testing.T) {
	c := &conn{wake: make(chan struct{}, 1)}
	s := &subscription{channel: "channel", conn: c, wanted: true}
	l := &listener{subscriptions: map[string]*subscription{"channel": s}}
	for range 10 {
		l.Unsubscribe("channel")
		l.Subscribe("channel")
	}
	if begin, end := l.takeQueued(c); len(begin) != 1 || len(end) != 0 {
		t.Errorf("%d to begin and %d to end, want 1 and 0", len(begin), len(end))
	}
}

// TestChangedMeanwhile has what is wanted change after it was requested, and looks at what the answer does.
func TestChangedMeanwhile(t *testing.T) {
	for name, answer := range map[string]func(*listener, *conn, *subscription){
		"ended":           func(l *listener, c *conn, s *subscription) { l.forget(c, []*subscription{s}) },
		"ended by server": func(l *listener, c *conn, s *subscription) { l.endedByServer(c, s.channel) },
		"refused": func(l *listener, c *conn, s *subscription) {
			l.refused(c, map[*subscription]*rueidis.RedisError{s: new(rueidis.RedisError)})
		},
	} {
		c := &conn{wake: make(chan struct{}, 1)}
		s := &subscription{channel: "channel", conn: c, wanted: true}
		l := &listener{subscriptions: map[string]*subscription{"channel": s}}
		l.Unsubscribe("channel")
		l.takeQueued(c)
		l.Subscribe("channel")
		answer(l, c, s)
		if l.subscriptions["channel"] != s || s.conn != c || !s.queued || len(l.postponed) != 0 {
			t.Errorf("%s: the request that is queued is lost", name)
		}
	}
}

// TestPauses checks that pauses grow, that a confirmation begins anew, and that one that is refused
// again and again does not slow down another.
func TestPauses(t *testing.T) {
	c := new(conn)
	refused := &subscription{channel: "refused", wanted: true}
	other := &subscription{channel: "other", wanted: true}
	l := &listener{wake: make(chan struct{}, 1), subscriptions: map[string]*subscription{"refused": refused, "other": other}}
	c.listener, l.sink = l, func(driver.Event) {}
	pause := func(failed ...*subscription) time.Duration {
		l.postponed = nil
		l.postpone(failed)
		return time.Until(l.postponed[0].until)
	}
	first, last := driverkit.Backoff(0, 1), driverkit.Backoff(100, 1)
	if got := pause(refused); got > first {
		t.Errorf("the first pause is %v", got)
	}
	for range 20 {
		pause(refused)
	}
	if got := pause(refused); got < last/2-first || got > last {
		t.Errorf("the last pause is %v", got)
	}
	if got := pause(other, refused); got > first {
		t.Errorf("the first pause of another is %v", got)
	}
	refused.conn = c
	c.answer(rueidis.PubSubSubscription{Kind: "subscribe", Channel: "refused"})
	if got := pause(refused); got > first {
		t.Errorf("the first pause after a confirmation is %v", got)
	}
}

// switching is a client whose nodes change.
type switching struct {
	rueidis.Client

	nodes atomic.Pointer[map[string]rueidis.Client]
}

func (s *switching) Nodes() map[string]rueidis.Client { return *s.nodes.Load() }

// TestNodesChange has the client use another server than the listener does, which works.
func TestNodesChange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := &switching{Client: connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})}
	client.nodes.Store(&map[string]rueidis.Client{"before": nil})
	_, counts := listenTo(t, New(client), "channel")
	client.nodes.Store(&map[string]rueidis.Client{"after": nil})
	counts.await(t, "after the change", 2, 0)
}

// TestSilentRESP2 has a server fall silent whose client uses two connections for messages.
func TestSilentRESP2(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	var direct atomic.Bool
	d := New(connect(t, rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, AlwaysRESP2: true, DisableCache: true,
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if !direct.Load() {
				addr = proxy.Addr()
			}
			return dialer.DialContext(ctx, "tcp", addr)
		},
	}))
	_, counts := listenTo(t, d, "channel")
	proxy.BlackHole(redistest.Both, true)
	direct.Store(true)
	eventually(t, "subscribed again", func() bool { return counts["channel"].subscribed.Load() == 2 })
}

// TestSlotTables compares what the two ways to ask for slots say.
func TestSlotTables(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("CLUSTER SHARDS came with Redis 7.0")
	}
	cluster := redistest.StartCluster(t, 3, 1)
	d := New(connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()}))
	nodes := d.client.Nodes()
	for addr, node := range nodes {
		var slots, shards slotTable
		var refused bool
		eventually(t, addr+" answers in time", func() bool {
			slots, refused = slotsOf(t.Context(), node, addr)
			shards = shardsOf(t.Context(), node, addr, nodes)
			return len(slots) > 0 && len(shards) > 0
		})
		for _, table := range []slotTable{slots, shards} {
			slices.SortFunc(table, func(a, b slotRange) int { return int(a.first - b.first) })
		}
		if refused || len(slots) != 3 || !slices.Equal(slots, shards) {
			t.Errorf("%s says %v and %v", addr, slots, shards)
		}
	}
	ask := func() (table slotTable) {
		eventually(t, "the slots", func() (ok bool) {
			var err error
			table, err = d.slotTable(t.Context())
			return err == nil
		})
		return table
	}
	table := ask()
	for _, channel := range []string{"a", "b", "{c}", "d"} {
		if owner, ok := table.owner(d.slotOf(channel)); !ok || owner != cluster.NodeFor(t, channel).Addr() {
			t.Errorf("%s is on %s, %t", channel, owner, ok)
		}
	}
	for _, slot := range []int64{0, 16383} {
		if _, ok := table.owner(slot); !ok {
			t.Errorf("slot %d has no owner", slot)
		}
	}
	for _, node := range cluster.Nodes {
		node.Cli(t, "ACL", "SETUSER", "default", "-cluster|slots")
	}
	if shards := ask(); !slices.Equal(table, shards) {
		t.Errorf("without the right to CLUSTER SLOTS: %v", shards)
	}
	gap := slotTable{{5, 6, "a"}, {9, 9, "b"}}
	for slot, want := range []string{"", "", "", "", "", "a", "a", "", "", "b", ""} {
		if owner, ok := gap.owner(int64(slot)); owner != want || ok != (want != "") {
			t.Errorf("slot %d is on %q, %t, want %q", slot, owner, ok, want)
		}
	}
}
