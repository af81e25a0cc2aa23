package interop

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var (
	soakHandovers = flag.Int("soak.handovers", 200, "how many hand-overs each way, of each kind of lock, TestSoak waits for")
	soakFaults    = flag.Duration("soak.faults", time.Second, "how long it takes, on average, until a Go process loses a reply, or its connections; three times that in TestSoakRedLock; 0: for ever")
	soakLimit     = flag.Duration("soak.limit", 5*time.Minute, "how long TestSoak waits for those of one kind")
)

// crowd is who contends in one process: the kind of lock that each thread takes.
type crowd []string

// bout is a contest for one lock.
type bout struct {
	title string
	crowd crowd // in the JVM, and in each of two Go processes
	room  int   // how many may hold it at once
	from4 bool
	spell func(name string) string
}

var bouts = []bout{
	{title: "mutex", crowd: crowd{"mutex", "mutex"}, room: 1},
	{title: "nonreentrant", crowd: crowd{"nonreentrant", "nonreentrant"}, room: 1, from4: true},
	{title: "spin", crowd: crowd{"spin", "spin"}, room: 1},
	{title: "fenced", crowd: crowd{"fenced", "fenced"}, room: 1},
	{title: "fair", crowd: crowd{"fair", "fair"}, room: 1},
	{title: "nonreentrantfair", crowd: crowd{"nonreentrantfair", "nonreentrantfair"}, room: 1, from4: true},
	{title: "read and write", crowd: crowd{"read", "write", "read"}, room: 1},
	{title: "multi", crowd: crowd{"multi", "multi"}, room: 1, spell: parts},
	{title: "semaphore", crowd: crowd{"semaphore", "semaphore"}, room: 2},
	{title: "permits", crowd: crowd{"permits", "permits"}, room: 2},
}

// Threads of a JVM and goroutines of two processes contend for locks of each kind.
// All of them report to one referee, who sees no two inside that exclude each
// other, and enough hand-overs each way. Between the Go processes and Redis there
// are proxies that swallow replies and cut connections all the time.
func TestSoak(t *testing.T) {
	t.Parallel()
	for _, version := range Versions { // one after the other: a field keeps both processors busy
		t.Run(version, func(t *testing.T) {
			f := newField(t, Config{Version: version, Mode: Single}, 1)
			for _, b := range bouts {
				if b.from4 && redisson3(version) {
					continue
				}
				t.Run(b.title, func(t *testing.T) { f.fight(t, b) })
			}
			t.Run("latch", f.rounds)
		})
	}
}

// TestSoakRedLock is the same for a lock on three servers; there, too, the versions take turns.
func TestSoakRedLock(t *testing.T) {
	t.Parallel()
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			f := newField(t, Config{Version: version, Mode: Independent}, 3)
			f.fight(t, bout{title: "red", crowd: crowd{"red"}, room: 1})
		})
	}
}

// needed is how many replies, or connections, have to be lost in a bout.
func needed() int64 {
	if *soakFaults == 0 {
		return 0
	}
	return 3
}

// field is where bouts take place.
type field struct {
	config  Config
	servers []*redistest.Server
	referee *referee
	java    *Peer
}

func newField(t *testing.T, c Config, servers int) *field {
	t.Helper()
	f := &field{config: c, referee: newReferee(t)}
	for range servers {
		s := redistest.Start(t)
		f.servers = append(f.servers, s)
		c.Addresses = append(c.Addresses, s.Addr())
	}
	if f.java = startPeer(t, StartJava, c); f.java == nil {
		t.FailNow()
	}
	return f
}

// camps are the JVM, and two Go processes behind proxies of their own, with
// different clients. The test's cleanup ends the latter.
func (f *field) camps(t *testing.T) (sides []*Peer, proxies []*redistest.Proxy) {
	t.Helper()
	sides = []*Peer{f.java}
	for i := range 2 {
		c := f.config
		c.Rueidis = i == 1
		for _, s := range f.servers {
			p := redistest.NewProxy(t, s.Addr())
			c.Addresses, proxies = append(c.Addresses, p.Addr()), append(proxies, p)
		}
		golang := startPeer(t, StartGo, c)
		if golang == nil {
			t.FailNow()
		}
		sides = append(sides, golang)
	}
	return sides, proxies
}

func (f *field) fight(t *testing.T, b bout) {
	name := strings.NewReplacer("/", ":", " ", "_").Replace(t.Name())
	if b.spell != nil {
		name = b.spell(name)
	}
	sides, proxies := f.camps(t)
	d := &duel{T: t, w: &world{servers: &servers{nodes: f.servers}}, k: &kind{name: b.crowd[0]}}
	if b.room > 1 {
		d.do(f.java, "T", "set", name, b.room)
	}
	deadline := time.Now().Add(*soakLimit)
	var lost atomic.Int64
	a := f.referee.open(name, b.room, func(a *arena) bool {
		enough := a.passed["java to go"] >= *soakHandovers && a.passed["go to java"] >= *soakHandovers
		return enough && lost.Load() >= needed() || time.Now().After(deadline)
	})
	start := time.Now()
	var waits []func() (string, error)
	for _, side := range sides {
		for i, kind := range b.crowd {
			waits = append(waits, side.Ask(fmt.Sprint(name, i), "contend", kind, name, f.referee.port()))
		}
	}
	await(t, waits, deadline, proxies, &lost)
	took := time.Since(start)
	f.judge(t, a, lost.Load())
	for _, way := range []string{"java to go", "go to java"} {
		if a.passed[way] < *soakHandovers {
			t.Errorf("%s: %d hand-overs in %v, want %d", way, a.passed[way], took, *soakHandovers)
		}
	}
	if b.room > 1 && a.maximum != b.room {
		t.Errorf("%d were inside together at most; there is room for %d", a.maximum, b.room)
	}
	t.Logf("%v in %v; %d replies or connections lost", a.passed, took.Round(time.Millisecond), lost.Load())
	if b.room > 1 {
		d.want(d.do(f.java, "T", "available", name), strconv.Itoa(b.room))
		return
	}
	d.gone(name)
}

// judge reports what was wrong in an arena, in which so many replies were lost.
func (f *field) judge(t *testing.T, a *arena, lost int64) {
	t.Helper()
	if lost < needed() {
		t.Errorf("%d replies were lost, want %d", lost, needed())
	}
	if err := f.referee.verdict(a); err != nil {
		t.Error(err)
	}
	switch {
	case a.forgotten > 0 && redisson3(f.config.Version):
		t.Logf("Redisson has forgotten a waiting thread of its own (W2): %d times", a.forgotten)
	case a.forgotten > 0:
		t.Errorf("Redisson has forgotten a waiting thread of its own: %d times", a.forgotten)
	}
}

// rounds has a latch set, counted down and waited for, by both sides, round after
// round.
func (f *field) rounds(t *testing.T) {
	name := strings.NewReplacer("/", ":", " ", "_").Replace(t.Name())
	deadline := time.Now().Add(*soakLimit)
	var lost atomic.Int64
	a := f.referee.open(name, 1, func(a *arena) bool {
		return a.rounds+1 >= *soakHandovers && lost.Load() >= needed() || time.Now().After(deadline)
	})
	sides, proxies := f.camps(t)
	a.counters, a.seats = len(sides), 2*len(sides)
	start := time.Now()
	var waits []func() (string, error)
	for _, side := range sides {
		for _, counts := range []bool{true, false} {
			waits = append(waits, side.Ask(fmt.Sprint(name, counts), "rounds", "latch", name, counts, a.counters, f.referee.port()))
		}
	}
	await(t, waits, deadline, proxies, &lost)
	f.judge(t, a, lost.Load())
	if a.rounds < *soakHandovers {
		t.Errorf("%d rounds in %v, want %d", a.rounds, time.Since(start), *soakHandovers)
	}
	t.Logf("%d rounds in %v; %d replies or connections lost", a.rounds, time.Since(start).Round(time.Millisecond), lost.Load())
}

// await returns when all contenders have stopped. Until then the proxies do harm.
func await(t *testing.T, waits []func() (string, error), deadline time.Time, proxies []*redistest.Proxy, lost *atomic.Int64) {
	t.Helper()
	stop := make(chan struct{})
	var harm sync.WaitGroup
	if *soakFaults == 0 {
		proxies = nil
	}
	for _, p := range proxies {
		harm.Go(func() { doHarm(p, *soakFaults*time.Duration(len(proxies)*len(proxies)/4), stop, lost) })
	}
	var all sync.WaitGroup
	for _, wait := range waits {
		all.Go(func() {
			if _, err := within(time.Until(deadline)+patience, wait); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(stop)
	harm.Wait()
}

// doHarm loses replies, and connections, one in so long a time on average, until
// stop is closed.
func doHarm(p *redistest.Proxy, mean time.Duration, stop <-chan struct{}, count *atomic.Int64) {
	script := func(request []byte) bool {
		return redistest.Command("evalsha")(request) || redistest.Command("eval")(request)
	}
	first := make(chan struct{})
	close(first)
	count.Add(-1) // which is none
	for next := (<-chan struct{})(first); ; {
		select {
		case <-stop:
			return
		case <-next: // one is lost at a time
			count.Add(1)
		}
		select {
		case <-stop:
			return
		case <-time.After(rand.N(2 * mean)):
		}
		p.Forget()
		if rand.IntN(10) == 0 {
			p.Cut()
			next = first
		} else {
			next = p.SwallowNextReply(script, redistest.ThenReset)
		}
	}
}
