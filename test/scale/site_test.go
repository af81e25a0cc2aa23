package scale

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// costs are what a simulated server takes its time for.
type costs struct {
	trip    time.Duration // the way there and back
	script  time.Duration // the server's time for a script
	message time.Duration // the server's time for a message to one subscriber
	// grain: requests are executed at multiples of it, and the server takes no time. Each
	// moment at which something is executed makes the server in memory look at every key, so
	// with many keys there must not be many moments. 0: none.
	grain time.Duration
}

// A site is a server in memory that behaves as one at the other end of a network: requests
// and messages take their time, scripts are executed one after another, and it can fail over
// to a replica. It counts what it is asked for. All is under fake time.
type site struct {
	t      *testing.T
	costs  costs
	start  time.Time
	server *memdriver.Server
	quiet  bool // nobody is told anything: for holders that nobody waits for

	mu      sync.Mutex
	away    bool
	free    time.Time // when the server has executed all that has arrived, and sent all messages
	drivers []*memdriver.Driver
	asked   siteCounts
	seconds []int // calls that were sent in each second
}

var errAway = errors.New("the server is away")

// newSite returns a site whose server is up.
func newSite(t *testing.T, c costs) *site {
	t.Helper()
	server, err := memdriver.NewServer()
	kit.OK(t, err)
	t.Cleanup(server.Close)
	return &site{t: t, costs: c, start: time.Now(), server: server, asked: siteCounts{calls: map[string]int{}, keys: map[string]int{}}}
}

// client returns a client of the site, for one process.
func (s *site) client() *holdfast.Client {
	s.t.Helper()
	d := s.server.Driver()
	d.SetFaults(s.way)
	s.mu.Lock()
	s.drivers = append(s.drivers, d)
	s.mu.Unlock()
	c, err := holdfast.New(siteDriver{d, s}, holdfast.WithoutIdentity())
	kit.OK(s.t, err)
	s.t.Cleanup(func() { kit.OK(s.t, c.Close()) })
	return c
}

// A siteCounts is what the site has been asked for up to a moment.
type siteCounts struct {
	at          time.Time
	calls, keys map[string]int // scripts, and their keys, by name
	sent        int64          // messages, to one subscriber each
}

func (s *site) counts() siteCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return siteCounts{time.Now(), maps.Clone(s.asked.calls), maps.Clone(s.asked.keys), s.asked.sent}
}

// since is what has been asked for since earlier counts.
func (r siteCounts) since(before siteCounts) siteCounts {
	for name, n := range before.calls {
		r.calls[name] -= n
		r.keys[name] -= before.keys[name]
	}
	r.sent -= before.sent
	return r
}

// all are all scripts.
func (r siteCounts) all() (sum int) {
	for _, n := range r.calls {
		sum += n
	}
	return sum
}

// busiest returns the most calls that were sent in one second from a moment on, and which.
func (s *site) busiest(from time.Time, seconds int) (calls, second int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := int(from.Sub(s.start) / time.Second)
	for i := first; i < min(len(s.seconds), first+seconds); i++ {
		if s.seconds[i] > calls {
			calls, second = s.seconds[i], i-first
		}
	}
	return calls, second
}

// way is that of a request to the server and back.
func (s *site) way(call driver.Call) memdriver.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.asked.calls[call.Script.Name()]++
	s.asked.keys[call.Script.Name()] += len(call.Keys)
	second := int(now.Sub(s.start) / time.Second)
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, 0)
	}
	s.seconds[second]++
	if s.away {
		return memdriver.Fault{Refuse: errAway}
	}
	arrives := now.Add(s.costs.trip / 2)
	if s.costs.grain > 0 {
		arrives = arrives.Add(s.costs.grain - arrives.Sub(s.start)%s.costs.grain)
		return memdriver.Fault{DelayRequest: arrives.Sub(now), DelayReply: s.costs.trip / 2}
	}
	if arrives.Before(s.free) {
		arrives = s.free
	}
	s.free = arrives.Add(s.costs.script)
	return memdriver.Fault{DelayRequest: arrives.Sub(now), DelayReply: s.costs.script + s.costs.trip/2}
}

// siteDriver is one process's way to the site. What it hears takes its time.
type siteDriver struct {
	*memdriver.Driver
	site *site
}

func (d siteDriver) Listen(sink func(driver.Event)) driver.Listener {
	if d.site.quiet {
		return noListener{}
	}
	return d.Driver.Listen(func(e driver.Event) { time.AfterFunc(d.site.tell(e), func() { sink(e) }) })
}

type noListener struct{}

func (noListener) Subscribe(string)   {}
func (noListener) Unsubscribe(string) {}
func (noListener) Close()             {}

// tell is how long an event is under way that the server sends now. Messages leave it one after another.
func (s *site) tell(e driver.Event) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind != driver.Message {
		return s.costs.trip / 2
	}
	s.asked.sent++
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(s.costs.message)
	return time.Until(s.free) + s.costs.trip/2
}

// failOver has the server go away, with what has been written for so long, and a replica
// come up in its place after so long an outage. It has no subscribers; all clients subscribe
// again at once. It returns when it went away, and when the other one came up.
func (s *site) failOver(lag, outage time.Duration) (down, up time.Time) {
	copied := s.replicate()
	time.Sleep(lag)
	s.connect(false)
	down = time.Now()
	time.Sleep(outage)
	for _, key := range texts(s.ask("KEYS", "*")) {
		s.ask("DEL", key)
	}
	for key, value := range copied {
		if left := time.Until(value.until); left > 0 {
			s.ask(append([]string{"HSET", key}, value.fields...)...)
			s.ask("PEXPIRE", key, strconv.FormatInt(left.Milliseconds(), 10))
		}
	}
	s.connect(true)
	return down, time.Now()
}

func (s *site) connect(up bool) {
	s.mu.Lock()
	s.away = !up
	drivers := slices.Clone(s.drivers)
	s.mu.Unlock()
	for _, d := range drivers {
		d.LoseMessages(!up)
	}
}

// replicated is what a replica knows of a hash.
type replicated struct {
	fields []string
	until  time.Time
}

// replicate returns all hashes. The line is lost.
func (s *site) replicate() map[string]replicated {
	copied := map[string]replicated{}
	for _, key := range texts(s.ask("KEYS", "*")) {
		if s.ask("TYPE", key) != "hash" {
			continue
		}
		ms, ok := s.ask("PTTL", key).(int64)
		if !ok || ms < 0 {
			s.t.Fatalf("%s has no time to live", key)
		}
		copied[key] = replicated{texts(s.ask("HGETALL", key)), time.Now().Add(time.Duration(ms) * time.Millisecond)}
	}
	return copied
}

func (s *site) ask(command ...string) any {
	s.t.Helper()
	reply, err := s.server.Do(command...)
	kit.OK(s.t, err)
	return reply
}

// texts is a reply that is a list of texts.
func texts(reply any) (all []string) {
	list, _ := reply.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
