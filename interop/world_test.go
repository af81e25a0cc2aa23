package interop

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	// soon is within what a message reaches the other side on a machine that is busy, more often than not.
	soon = time.Second
	// watchdog is the lease of holds that are renewed. Both sides renew it at a
	// third of it.
	watchdog = 6 * time.Second
	// patience is for what happens sooner or later.
	patience = time.Minute
)

// topology is a shape of servers that locks live on.
type topology struct {
	name  string
	kinds []*kind // that make sense there
	start func(t *testing.T) *servers
}

// servers are what a topology has started.
type servers struct {
	config Config
	nodes  []*redistest.Server // those that keep data
	rdb    redis.UniversalClient
}

var topologies = []topology{
	{"standalone", kinds, func(t *testing.T) *servers {
		s := redistest.Start(t)
		return &servers{config: Config{Mode: Single, Addresses: []string{s.Addr()}}, nodes: []*redistest.Server{s}}
	}},
	{"cluster", kinds, cluster(Cluster)},
	{"cluster-classic", kinds, cluster(Classic)}, // without sharded pub/sub
	{"sentinel", kinds, func(t *testing.T) *servers {
		s := redistest.StartSentinel(t, 1, 3)
		return &servers{
			config: Config{Mode: Sentinel, Addresses: s.Addrs(), Master: s.MasterName()},
			nodes:  s.Nodes,
		}
	}},
	{"independent", []*kind{redKind}, func(t *testing.T) *servers {
		s := &servers{config: Config{Mode: Independent}}
		for range 3 {
			node := redistest.Start(t)
			s.nodes = append(s.nodes, node)
			s.config.Addresses = append(s.config.Addresses, node.Addr())
		}
		return s
	}},
}

func cluster(mode Mode) func(t *testing.T) *servers {
	return func(t *testing.T) *servers {
		t.Helper()
		c := redistest.StartCluster(t, 3, 0)
		return &servers{config: Config{Mode: mode, Addresses: c.Addrs()}, nodes: c.Nodes}
	}
}

// world is the servers of a topology between Redisson, of one version, and us.
type world struct {
	*servers
	version string
	java    *Peer
	golang  *Peer
}

// redisson3 reports whether Java's side is the last of the older major line.
func (w *world) redisson3() bool { return redisson3(w.version) }

func redisson3(version string) bool { return strings.HasPrefix(version, "3.") }

// onWorlds runs a test in a world for each version of Redisson, on servers of the
// topology.
func (top *topology) onWorlds(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(top.name, func(t *testing.T) {
		s := top.start(t)
		s.connect(t)
		for i, version := range Versions {
			t.Run(version, func(t *testing.T) {
				w := &world{servers: s, version: version}
				w.java, w.golang = w.peers(t, i%2 == 1)
				test(t, w)
			})
		}
	})
}

// each runs a test for each kind that this Redisson has, all at the same time.
func (w *world) each(t *testing.T, kinds []*kind, test func(t *testing.T, k *kind)) {
	t.Helper()
	for _, k := range kinds {
		if k.from4 && w.redisson3() {
			continue // there is nothing to share it with
		}
		t.Run(k.title(), func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// connect opens a client of the test's own, to look at what stands in Redis.
func (s *servers) connect(t *testing.T) {
	t.Helper()
	c := s.config
	addresses := c.Addresses
	if c.Mode == Independent {
		addresses = addresses[:1]
	}
	s.rdb = redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addresses, MasterName: c.Master, IsClusterMode: c.Mode == Cluster || c.Mode == Classic,
	})
	t.Cleanup(func() { s.rdb.Close() })
}

// peers starts one of each side. The test's cleanup kills them.
func (w *world) peers(t *testing.T, useRueidis bool) (java, golang *Peer) {
	t.Helper()
	return w.peersWith(t, watchdog, useRueidis)
}

func (w *world) peersWith(t *testing.T, lease time.Duration, useRueidis bool) (java, golang *Peer) {
	t.Helper()
	c := w.config
	c.Version, c.Watchdog, c.Rueidis = w.version, lease, useRueidis
	return startBoth(t, c)
}

func startBoth(t *testing.T, c Config) (java, golang *Peer) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { java = startPeer(t, StartJava, c) })
	wg.Go(func() { golang = startPeer(t, StartGo, c) })
	wg.Wait()
	if java == nil || golang == nil {
		t.FailNow()
	}
	return java, golang
}

func startPeer(t *testing.T, start func(context.Context, Config) (*Peer, error), c Config) *Peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 5*time.Minute) // the first one fetches Redisson
	defer cancel()
	p, err := start(ctx, c)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(p.Kill)
	return p
}

// duel is two sides about one lock: a has it first, and b would like to.
type duel struct {
	*testing.T
	w    *world
	k    *kind
	a, b *Peer

	threads string // what its threads' names begin with; empty: with the test's
}

// both runs a test with Java as the first side, and with Go.
func (w *world) both(t *testing.T, k *kind, test func(d *duel)) {
	t.Helper()
	for _, sides := range [][2]*Peer{{w.java, w.golang}, {w.golang, w.java}} {
		t.Run(fmt.Sprintf("%v to %v", sides[0], sides[1]), func(t *testing.T) {
			t.Parallel()
			test(&duel{T: t, w: w, k: k, a: sides[0], b: sides[1]})
		})
	}
}

// name makes a lock's name that nobody else uses.
func (d *duel) name(what string) string {
	return d.k.spell(strings.NewReplacer("/", ":", " ", "_").Replace(d.Name()) + ":" + what)
}

// ask has a thread of this test's own do something.
func (d *duel) ask(p *Peer, thread, verb, kind, name string, more ...any) func() (string, error) {
	return p.Ask(cmp.Or(d.threads, d.Name())+"/"+thread, verb, kind, name, more...)
}

// do has a thread do something with a lock of the kind, which has to succeed.
func (d *duel) do(p *Peer, thread, verb, name string, more ...any) string {
	d.Helper()
	return d.as(p, thread, verb, d.k.name, name, more...)
}

// as is do for any kind.
func (d *duel) as(p *Peer, thread, verb, kind, name string, more ...any) string {
	d.Helper()
	return d.get(d.ask(p, thread, verb, kind, name, more...))
}

func (d *duel) get(wait func() (string, error)) string {
	d.Helper()
	value, err := within(patience, wait)
	if err != nil {
		d.Fatal(err)
	}
	return value
}

// within bounds the wait for an answer.
func within(limit time.Duration, wait func() (string, error)) (string, error) {
	type result struct {
		value string
		err   error
	}
	got := make(chan result, 1)
	go func() { // ends with the answer, or the peer
		value, err := wait()
		got <- result{value, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-time.After(limit):
		return "", fmt.Errorf("no answer within %v", limit)
	}
}

func (d *duel) want(got, want string) {
	d.Helper()
	if got != want {
		d.Errorf("%q, want %q", got, want)
	}
}

// fails has a thread do something that it must be told is wrong, like the unlock
// of a lock that is somebody else's by now.
func (d *duel) fails(p *Peer, thread, verb, kind, name string, more ...any) {
	d.Helper()
	if value, err := within(patience, d.ask(p, thread, verb, kind, name, more...)); err == nil {
		d.Errorf("%v: %s of a lost or refused %s lock: %s", p, verb, kind, value)
	}
}

// waits has b's thread wait for the lock that a holds; it returns when it listens.
func (d *duel) waits(p *Peer, thread, name string) func() (string, error) {
	d.Helper()
	before := d.listeners(name)
	wait := d.ask(p, thread, "lock", d.k.rivals(), name)
	if d.k.channel != nil {
		d.until("a waiter listens", func() bool { return d.listeners(name) > before })
	}
	return wait
}

// listeners counts who listens to the lock's channels.
func (d *duel) listeners(name string) (n int64) {
	d.Helper()
	if d.k.channel == nil {
		return 0
	}
	for _, node := range d.w.nodes {
		n += d.w.listeners(d.T, node, d.k.channel(name))
	}
	return n
}

// listeners counts who listens to a channel, or to those that begin so, on a node. One may listen
// already when another begins: a holder does, once it has held the lock for a second.
func (s *servers) listeners(t *testing.T, node *redistest.Server, channel string) (n int64) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
	defer rdb.Close()
	pattern := strings.NewReplacer("{", "\\{", "}", "\\}").Replace(channel) + "*"
	for _, ask := range []struct {
		channels func(context.Context, string) *redis.StringSliceCmd
		count    func(context.Context, ...string) *redis.MapStringIntCmd
	}{{rdb.PubSubChannels, rdb.PubSubNumSub}, {rdb.PubSubShardChannels, rdb.PubSubShardNumSub}} {
		channels, err := ask.channels(background, pattern).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(channels) == 0 {
			continue
		}
		counts, err := ask.count(background, channels...).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, count := range counts {
			n += count
		}
	}
	return n
}

// until returns when something has come about, as it must.
func (d *duel) until(what string, done func() bool) {
	d.Helper()
	if !d.comes(patience, done) {
		d.Fatalf("not in %v: %s", patience, what)
	}
}

// comes reports whether something comes about in a time.
func (d *duel) comes(limit time.Duration, done func() bool) bool {
	d.Helper()
	for deadline := time.Now().Add(limit); !done(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
