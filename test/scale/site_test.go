package scale

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
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
	thread chan struct{} // held while a script is executed
	sent   atomic.Int64  // messages, to one subscriber each
	first  atomic.Int64  // how many had been sent before the script that is executed
	quiet  bool          // nobody is told anything: for holders that nobody waits for

	mu         sync.Mutex
	server     *memdriver.Server
	up         bool
	generation int // which server it is
	drivers    []*siteDriver
	calls      map[string]int // scripts, by name
	keys       map[string]int // of these
	seconds    []int          // calls that were sent in each second
}

var errAway = errors.New("the server is away")

// newSite returns a site whose server is up.
func newSite(t *testing.T, c costs) *site {
	t.Helper()
	s := &site{
		t: t, costs: c, start: time.Now(), thread: make(chan struct{}, 1), up: true,
		calls: map[string]int{}, keys: map[string]int{},
	}
	s.server = s.newServer()
	return s
}

func (s *site) newServer() *memdriver.Server {
	s.t.Helper()
	server, err := memdriver.NewServer()
	kit.OK(s.t, err)
	s.t.Cleanup(server.Close)
	return server
}

// client returns a client of the site, for one process.
func (s *site) client() *holdfast.Client {
	s.t.Helper()
	s.mu.Lock()
	d := &siteDriver{site: s, server: s.server.Driver(), listeners: map[*siteListener]struct{}{}}
	s.drivers = append(s.drivers, d)
	s.mu.Unlock()
	c, err := holdfast.New(d, holdfast.WithoutIdentity())
	kit.OK(s.t, err)
	s.t.Cleanup(func() { kit.OK(s.t, c.Close()) })
	return c
}

// A siteCounts is what the site has been asked for up to a moment.
type siteCounts struct {
	at          time.Time
	calls, keys map[string]int
	sent        int64
}

func (s *site) counts() siteCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := siteCounts{at: time.Now(), calls: map[string]int{}, keys: map[string]int{}, sent: s.sent.Load()}
	for name, n := range s.calls {
		r.calls[name], r.keys[name] = n, s.keys[name]
	}
	return r
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

func (s *site) note(call driver.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call.Script.Name()]++
	s.keys[call.Script.Name()] += len(call.Keys)
	second := int(time.Since(s.start) / time.Second)
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, 0)
	}
	s.seconds[second]++
}

// now is which server there is, if any.
func (s *site) now() (generation int, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation, s.up
}

// serve is the way of a request to the server and back. A request that does not find a
// server is refused; one whose server goes away meanwhile is not answered.
func (s *site) serve(d *siteDriver, call driver.Call) (any, error) {
	s.note(call)
	generation, up := s.now()
	time.Sleep(s.costs.trip / 2)
	if s.costs.grain > 0 {
		time.Sleep(s.costs.grain - time.Since(s.start)%s.costs.grain)
	} else {
		s.thread <- struct{}{}
		defer func() { <-s.thread }()
	}
	if now, stillUp := s.now(); !up || !stillUp || now != generation {
		return nil, driver.ConnectionError(errAway, true)
	}
	before := s.sent.Load()
	s.first.Store(before)
	reply, err := d.at().Eval(context.Background(), call)
	if s.costs.grain == 0 {
		time.Sleep(s.costs.script) // all messages are on their way after that
		time.Sleep(time.Duration(s.sent.Load()-before) * s.costs.message)
	}
	if now, stillUp := s.now(); !stillUp || now != generation {
		return nil, driver.ConnectionError(errAway, false)
	}
	return reply, err
}

// failOver has the server go away, with what has been written for so long, and a replica
// come up in its place after so long an outage. It has no subscribers; all clients subscribe
// again at once. It returns when it went away, and when the other one came up.
func (s *site) failOver(lag, outage time.Duration) (down, up time.Time) {
	copied := s.replicate()
	time.Sleep(lag)
	s.mu.Lock()
	s.up = false
	s.generation++
	drivers := s.drivers
	s.mu.Unlock()
	for _, d := range drivers {
		d.disconnect()
	}
	down = time.Now()
	time.Sleep(outage)
	replica := s.newServer()
	copied.writeTo(s.t, replica)
	s.mu.Lock()
	s.server, s.up = replica, true
	s.mu.Unlock()
	for _, d := range drivers {
		d.connect(replica.Driver())
	}
	return down, time.Now()
}

// aReplica is what a replica knows: hashes, and when they end.
type aReplica map[string]replicated

type replicated struct {
	fields []string
	until  time.Time
}

func (s *site) replicate() aReplica {
	copied := aReplica{}
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	for _, key := range texts(s.ask(server, "KEYS", "*")) {
		if s.ask(server, "TYPE", key) != "hash" { // the line is lost
			continue
		}
		ms, ok := s.ask(server, "PTTL", key).(int64)
		if !ok || ms < 0 {
			s.t.Fatalf("%s has no time to live", key)
		}
		until := time.Now().Add(time.Duration(ms) * time.Millisecond)
		copied[key] = replicated{texts(s.ask(server, "HGETALL", key)), until}
	}
	return copied
}

func (r aReplica) writeTo(t *testing.T, server *memdriver.Server) {
	t.Helper()
	for key, value := range r {
		left := time.Until(value.until)
		if left <= 0 {
			continue
		}
		for _, command := range [][]string{
			append([]string{"HSET", key}, value.fields...), {"PEXPIRE", key, strconv.FormatInt(left.Milliseconds(), 10)},
		} {
			_, err := server.Do(command...)
			kit.OK(t, err)
		}
	}
}

func (s *site) ask(server *memdriver.Server, command ...string) any {
	s.t.Helper()
	reply, err := server.Do(command...)
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

// siteDriver is one process's way to the site.
type siteDriver struct {
	site *site

	mu        sync.Mutex
	server    *memdriver.Driver
	listeners map[*siteListener]struct{}
}

var _ driver.Driver = (*siteDriver)(nil)

func (d *siteDriver) at() *memdriver.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server
}

func (d *siteDriver) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	return driver.Run(ctx, call, func() (any, error) {
		reply, err := d.site.serve(d, call)
		time.Sleep(d.site.costs.trip / 2)
		return reply, err
	})
}

func (d *siteDriver) EvalReplicated(context.Context, driver.Call, int, time.Duration) (any, int, error) {
	return nil, 0, errors.New("no replica acknowledges anything here")
}

func (d *siteDriver) Check() error { return nil }

func (d *siteDriver) Slotted() bool { return false }

func (d *siteDriver) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }

func (d *siteDriver) Listen(sink func(driver.Event)) driver.Listener {
	l := &siteListener{driver: d, sink: sink, wanted: map[string]struct{}{}}
	if d.site.quiet {
		return l
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners[l] = struct{}{}
	l.connect(d.server)
	return l
}

func (d *siteDriver) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.listeners {
		l.disconnect()
	}
}

func (d *siteDriver) connect(server *memdriver.Driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = server
	for l := range d.listeners {
		l.connect(server)
	}
}

// siteListener has what it hears take its time, and goes from one server to the next.
type siteListener struct {
	driver *siteDriver
	sink   func(driver.Event)
	onWay  sync.WaitGroup // events

	mu     sync.Mutex
	wanted map[string]struct{}
	inner  driver.Listener // nil while there is no server
	closed bool
}

func (l *siteListener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted[channel] = struct{}{}
	if l.inner != nil {
		l.inner.Subscribe(channel)
	}
}

func (l *siteListener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wanted, channel)
	if l.inner != nil {
		l.inner.Unsubscribe(channel)
	}
}

func (l *siteListener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.disconnect()
	l.onWay.Wait()
	l.driver.mu.Lock()
	defer l.driver.mu.Unlock()
	delete(l.driver.listeners, l)
}

func (l *siteListener) connect(server *memdriver.Driver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.inner = server.Listen(l.heard)
	for channel := range l.wanted {
		l.inner.Subscribe(channel)
	}
}

func (l *siteListener) disconnect() {
	l.mu.Lock()
	inner := l.inner
	l.inner = nil
	l.mu.Unlock()
	if inner != nil {
		inner.Close()
	}
}

// heard is an event that the server sends. Those of one script leave it one after another.
func (l *siteListener) heard(e driver.Event) {
	s := l.driver.site
	delay := s.costs.trip / 2
	if e.Kind == driver.Message {
		delay += time.Duration(s.sent.Add(1)-s.first.Load()) * s.costs.message
	}
	l.onWay.Add(1)
	time.AfterFunc(delay, func() {
		defer l.onWay.Done()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if !closed {
			l.sink(e)
		}
	})
}
