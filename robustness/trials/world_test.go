//go:build unix

package trials

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// anywhere is a test that may be failed from any goroutine: Fatalf ends the goroutine that calls it. While there is
// a trial, that is what fails.
type anywhere struct {
	testing.TB

	trial atomic.Pointer[testing.T]
}

func (a *anywhere) now() testing.TB {
	if t := a.trial.Load(); t != nil {
		return t
	}
	return a.TB
}

func (a *anywhere) Errorf(format string, args ...any) { a.now().Errorf(format, args...) }

func (a *anywhere) Fatalf(format string, args ...any) {
	t := a.now()
	t.Errorf(format, args...)
	t.FailNow()
}

// maxPlaces is how many members there are at once, at most.
const maxPlaces = 4

// masters is how many a cluster has.
const masters = 3

// world is one topology of servers.
type world struct {
	t        *anywhere
	topology string
	servers  []*redistest.Server // that have locks
	library  string              // by which servers' clocks are set; "": none is needed yet
	clocks   map[*redistest.Server]*clock
	sentinel *redistest.Sentinel // or nil
	cluster  *redistest.Cluster  // or nil
	five     bool                // the servers know nothing of each other
	durable  bool                // a server that is killed has its data when it comes back
	addrs    [][]string          // for members
	master   string
	places   []*place
	trials   int
	failures int
}

// topologies are those that there are, in the order in which they are tried.
var topologies = []struct {
	name  string
	start func(w *world)
}{
	{"alone", func(w *world) { w.start() }},
	{"aof", func(w *world) {
		w.durable = true
		w.start(redistest.WithAppendOnly())
	}},
	{"replicated", func(w *world) { // members are told of the primary alone
		r := redistest.StartReplicated(w.t, 2)
		w.servers = append([]*redistest.Server{r.Primary}, r.Replicas...)
		w.addrs = [][]string{{r.Primary.Addr()}}
	}},
	{"sentinel", func(w *world) {
		w.sentinel = redistest.StartSentinel(w.t, 2, 3)
		w.servers, w.master = w.sentinel.Nodes, w.sentinel.MasterName()
		w.addrs = [][]string{w.sentinel.Addrs()}
	}},
	{"cluster", func(w *world) {
		w.cluster = redistest.StartCluster(w.t, masters, 1)
		w.servers = w.cluster.Nodes
		w.addrs = [][]string{w.cluster.Addrs()}
	}},
	{"redlock", func(w *world) {
		w.five, w.durable = true, true
		for range 5 {
			w.start(redistest.WithAppendOnly())
		}
		for _, s := range w.servers {
			w.addrs = append(w.addrs, []string{s.Addr()})
		}
	}},
}

func startWorld(t *testing.T, topology string) *world {
	t.Helper()
	w := &world{t: &anywhere{TB: t}, topology: topology, clocks: map[*redistest.Server]*clock{}}
	for _, known := range topologies {
		if known.name == topology {
			known.start(w)
		}
	}
	if w.servers == nil {
		t.Fatalf("there is no topology %q", topology)
	}
	if w.addrs == nil {
		w.addrs = [][]string{{w.servers[0].Addr()}}
	}
	reached := append([]*redistest.Server{}, w.servers...)
	if w.sentinel != nil {
		reached = append(reached, w.sentinel.Sentinels...)
	}
	for i := range maxPlaces {
		p := &place{index: i, via: map[string]string{}}
		for _, s := range reached {
			proxy := redistest.NewProxy(w.t, s.Addr())
			p.proxies = append(p.proxies, proxy)
			p.via[s.Addr()] = proxy.Addr()
		}
		w.places = append(w.places, p)
	}
	return w
}

// askLimit is how long a server may take to answer what a fault needs.
const askLimit = 10 * time.Second

// ask fails the trial if a server does not do what a fault needs.
func (w *world) ask(s *redistest.Server, args ...string) string {
	reply, err := s.Ask(askLimit, args...)
	if err != nil {
		w.t.Errorf("a fault was not inflicted: %v", err)
	}
	return reply
}

// patience is for how long servers wait until they take another one for dead.
func (w *world) patience(c program.Class) {
	failOver := 60 * time.Second // in class a nothing fails over
	if c == program.ClassB {
		failOver = time.Second
	}
	ms := strconv.FormatInt(failOver.Milliseconds(), 10)
	if w.sentinel != nil {
		for _, s := range w.sentinel.Sentinels {
			w.ask(s, "SENTINEL", "SET", w.master, "down-after-milliseconds", ms)
		}
	}
	if w.cluster != nil {
		for _, s := range w.servers {
			w.ask(s, "CONFIG", "SET", "cluster-node-timeout", ms)
		}
	}
}

// awaitRecovery waits until all servers are well and agree.
func (w *world) awaitRecovery() {
	if w.sentinel != nil {
		w.sentinel.AwaitRecovery(w.t)
	}
	if w.cluster != nil {
		w.cluster.AwaitRecovery(w.t, masters)
	}
}

// roles says who is whose primary: if that changes, there was a failover.
func (w *world) roles() string {
	switch {
	case w.sentinel != nil:
		return w.sentinel.Primary(w.t).Addr()
	case w.cluster != nil:
		primaries, _ := w.cluster.Roles(w.t)
		var all string
		for _, s := range primaries {
			all += s.Addr() + " "
		}
		return all
	}
	return ""
}
