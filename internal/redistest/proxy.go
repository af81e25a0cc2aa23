package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Direction says which way a fault of a [Proxy] works.
type Direction int

const (
	// ToServer is the way of the requests.
	ToServer Direction = 1 << iota
	// ToClient is the way of the replies.
	ToClient
	// Both is either way.
	Both = ToServer | ToClient
)

// A Proxy passes TCP connections on to a server and injects faults between it
// and its clients. Its methods may be called from several goroutines.
//
// It passes on a request or a reply when it has all of it. What is not RESP,
// such as TLS, is passed on as it comes; then [Proxy.Requests] and
// [Proxy.SwallowNextReply] see nothing.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex
	closed   bool
	refuse   bool
	lanes    map[Direction]*lane // for ToServer and ToClient
	links    map[*link]struct{}
	requests [][]byte
	swallows []*swallow
}

// A lane is the state of one direction.
type lane struct {
	delay time.Duration
	open  chan struct{} // closed while traffic may pass
}

// NewProxy starts a proxy to the server at target. The test's cleanup closes
// it.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: starting a proxy: %v", err)
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		lanes:    map[Direction]*lane{ToServer: newLane(), ToClient: newLane()},
		links:    map[*link]struct{}{},
	}
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

func newLane() *lane {
	l := &lane{open: make(chan struct{})}
	close(l.open)
	return l
}

// Addr returns the address that clients connect to, as 127.0.0.1:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all its connections, and returns when none of its
// goroutines is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	// The only error is that it has been closed before.
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Cut resets all connections that there are now, to both sides. What was held
// back by [Proxy.BlackHole] or [Proxy.Delay] is lost; a request on its way may
// or may not reach the server. New connections are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var links []*link
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end(true)
	}
}

// Refuse switches on or off that new connections are reset at once, so that
// either dialling or the first read fails. Those that there are stay.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// BlackHole switches on or off that nothing is delivered in a direction,
// neither data nor the end of a connection, while connections stay open and
// new ones are accepted. It holds for all that the proxy receives once
// BlackHole has returned. When it is switched off, what was held back is
// delivered, even if the sender has gone meanwhile: so a request may reach the
// server long after its client gave up.
func (p *Proxy) BlackHole(dir Direction, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanesOf(dir) {
		select {
		case <-l.open:
			if on {
				l.open = make(chan struct{})
			}
		default:
			if !on {
				close(l.open)
			}
		}
	}
}

// Delay makes all that the proxy receives from now on in a direction arrive
// that much later. Zero switches it off.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanesOf(dir) {
		l.delay = d
	}
}

// SwallowNextReply makes the reply to the next request that matches get lost
// between server and client: the server carries out the request, and replies
// to earlier requests on the connection are delivered, but neither this reply
// nor anything after it. What becomes of the connection is up to then. The
// channel returned is closed when the server has replied.
//
// Each call is good for one request. The match function gets the bytes of the
// request as RESP, see [Command] and [Args]; it must not call the proxy. Which
// reply belongs to which request is found by counting, so on a connection that
// uses CLIENT REPLY, or to which a subscription was denied, the wrong reply may
// be lost.
func (p *Proxy) SwallowNextReply(match func(request []byte) bool, then Aftermath) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &swallow{match: match, then: then, done: make(chan struct{})}
	p.swallows = append(p.swallows, s)
	return s.done
}

// Requests returns how many of the requests that clients have sent since the
// start, or since [Proxy.Forget], match, each request of a pipeline counted by
// itself. The match function must not call the proxy.
func (p *Proxy) Requests(match func(request []byte) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, request := range p.requests {
		if match(request) {
			count++
		}
	}
	return count
}

// Forget drops the requests that it has counted, which take memory.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// lanesOf returns the lanes of a direction. The caller holds mu.
func (p *Proxy) lanesOf(dir Direction) []*lane {
	var lanes []*lane
	for d, l := range p.lanes {
		if dir&d != 0 {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// open returns a channel that is closed when traffic may pass in a direction.
func (p *Proxy) open(dir Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lanes[dir].open
}

// due returns when something received now in a direction is to be delivered.
func (p *Proxy) due(dir Direction) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.lanes[dir].delay)
}

// sawRequest records a request and whether its reply is to be lost.
func (p *Proxy) sawRequest(x *exchange, raw []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, raw)
	if x.loss != nil {
		x.request(raw, nil) // nothing gets through on this connection any more
		return
	}
	for i, s := range p.swallows {
		if s.match(raw) {
			p.swallows = append(p.swallows[:i], p.swallows[i+1:]...)
			x.request(raw, s)
			return
		}
	}
	x.request(raw, nil)
}

// sawReply decides what becomes of something that the server sent.
func (p *Proxy) sawReply(x *exchange, v value) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.reply(v)
}

// streaming says whether what the server sends is no longer replies.
func (p *Proxy) streaming(x *exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.streaming
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := newLink(p, conn.(*net.TCPConn))
		if !p.admit(l) {
			l.end(true)
			continue
		}
		p.running.Go(l.serve)
	}
}

func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
