package redistest

import (
	"net"
	"sync"
	"time"
)

const (
	dialLimit = 5 * time.Second
	queueSize = 1024 // values on their way in one direction
)

// A link is one client's connection through a proxy.
type link struct {
	proxy    *Proxy
	exchange exchange      // guarded by proxy.mu
	done     chan struct{} // closed when the link has ended

	mu    sync.Mutex
	ended bool
	conns []*net.TCPConn // the client's, then the server's
}

// A packet is something to deliver.
type packet struct {
	raw   []byte
	due   time.Time
	reset bool // end the link instead
}

func newLink(p *Proxy, client *net.TCPConn) *link {
	return &link{proxy: p, done: make(chan struct{}), conns: []*net.TCPConn{client}}
}

// end closes both connections, with a reset if asked for. Every goroutine of
// the link then returns.
func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.done)
	for _, conn := range l.conns {
		if reset {
			// Without lingering, closing sends RST rather than FIN. An
			// error means that the connection is gone already.
			_ = conn.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// dial connects to the server. It returns nil if that fails or the link has
// been ended meanwhile.
func (l *link) dial() *net.TCPConn {
	conn, err := net.DialTimeout("tcp", l.proxy.target, dialLimit)
	if err != nil {
		return nil
	}
	server := conn.(*net.TCPConn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = server.Close()
		return nil
	}
	l.conns = append(l.conns, server)
	return server
}

// serve runs the link until it ends. If there is no server the client's
// connection is reset.
func (l *link) serve() {
	defer l.proxy.forget(l)
	defer l.end(true)
	client, server := l.conns[0], l.dial()
	if server == nil {
		return
	}
	requests := make(chan packet, queueSize)
	replies := make(chan packet, queueSize)
	var parts sync.WaitGroup
	parts.Go(func() { l.readRequests(client, requests) })
	parts.Go(func() { l.write(ToServer, requests, server) })
	parts.Go(func() { l.readReplies(server, replies) })
	parts.Go(func() { l.write(ToClient, replies, client) })
	parts.Wait()
}

func (l *link) readRequests(client net.Conn, out chan<- packet) {
	defer close(out)
	in := newRESPReader(client)
	for {
		v, err := in.next()
		if v.kind != 0 {
			// Before it is passed on: the reply must find it counted.
			l.proxy.sawRequest(&l.exchange, v.raw)
		}
		if !l.enqueue(ToServer, out, packet{raw: v.raw}) || err != nil {
			return
		}
	}
}

func (l *link) readReplies(server net.Conn, out chan<- packet) {
	defer close(out)
	in := newRESPReader(server)
	for {
		in.opaque = in.opaque || l.proxy.streaming(&l.exchange)
		v, err := in.next()
		p := packet{raw: v.raw}
		switch l.proxy.sawReply(&l.exchange, v) {
		case drop:
			p.raw = nil
		case dropAndReset:
			p = packet{reset: true}
		}
		if !l.enqueue(ToClient, out, p) || err != nil {
			return
		}
	}
}

// enqueue hands a packet to the writer. It returns false if the link has ended.
func (l *link) enqueue(dir Direction, out chan<- packet, p packet) bool {
	p.due = l.proxy.due(dir)
	select {
	case out <- p:
		return true
	case <-l.done:
		return false
	}
}

// write delivers what comes in, when it is due and as long as the direction is
// not black-holed, and in the end passes on that the sender has closed.
func (l *link) write(dir Direction, in <-chan packet, to *net.TCPConn) {
	gone := false
	for p := range in {
		if !l.await(dir, p.due) {
			return
		}
		if p.reset {
			l.end(true)
			return
		}
		if !gone && len(p.raw) > 0 {
			_, err := to.Write(p.raw)
			// A receiver that is gone does not stop the other direction:
			// a dead client's requests still reach the server.
			gone = err != nil
		}
	}
	if !l.await(dir, l.proxy.due(dir)) {
		return
	}
	if dir == ToServer {
		// An error means that the server has closed already.
		_ = to.CloseWrite()
		return
	}
	l.end(false)
}

// await returns true when something may be delivered, and false when the link
// has ended.
func (l *link) await(dir Direction, due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.done:
		return false
	}
	select {
	case <-l.proxy.open(dir):
		return true
	case <-l.done:
		return false
	}
}
