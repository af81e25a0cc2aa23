package connect

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver/driverkit"
)

const (
	// announcedLimit bounds a dial to an address that sentinels or a cluster have announced: shorter than the time in which a call of
	// the library is sent again, so that its error says why.
	announcedLimit = 1500 * time.Millisecond
	// announcedFor is the time for which a failed dial counts for others: the Redis client dials several times.
	announcedFor = time.Second
)

// unreached records the addresses that sentinels or a cluster announced, and that could not be dialled lately.
type unreached struct {
	mu    sync.Mutex
	known map[string]*announcedError
}

// dial opens a connection to an announced address.
func (u *unreached) dial(ctx context.Context, network, addr string, dial func(ctx context.Context, network, addr string, limit time.Duration) (net.Conn, error)) (net.Conn, error) {
	u.mu.Lock()
	failed := u.known[addr]
	u.mu.Unlock()
	if failed != nil && time.Since(failed.at) < announcedFor {
		return nil, failed
	}
	conn, err := dial(ctx, network, addr, announcedLimit)
	if err == nil {
		return conn, nil
	}
	failed = &announcedError{addr: addr, err: err, at: time.Now()}
	if ctx.Err() != nil {
		return nil, failed // which may be too soon for others
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[string]*announcedError{}
	}
	u.known[addr] = failed
	return nil, failed
}

// announcedError is the failure of a connection to an address that the URL does not name, but that sentinels or a cluster
// have announced.
type announcedError struct {
	addr string
	err  error
	at   time.Time
}

func (e *announcedError) Error() string { return e.err.Error() }

func (e *announcedError) Unwrap() error { return e.err }

// firstWords is a connection without TLS that fails with what the server says first if that is a refusal. The Redis client would take it for
// the reply to HELLO, go on, and report that the connection was closed.
type firstWords struct {
	net.Conn

	raw     syscall.Conn
	heard   atomic.Bool // something was read
	refusal atomic.Pointer[refusalError]
}

// refusalError is the error reply with which a server refuses a connection.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// listenFirst returns conn with attention to what the server says first, if it is a plain connection.
func listenFirst(conn net.Conn) net.Conn {
	raw, plain := conn.(syscall.Conn)
	if !plain {
		return conn
	}
	return &firstWords{Conn: conn, raw: raw}
}

// SyscallConn lets the Redis client see whether an idle connection is dead.
func (c *firstWords) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// Read reads.
func (c *firstWords) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.heard.Swap(true) {
		line, _, _ := strings.Cut(string(p[:n]), "\r\n")
		if message, failed := strings.CutPrefix(line, "-"); failed && driverkit.IsRefusal(message) {
			refusal := refusalError(message)
			c.refusal.Store(&refusal)
		}
	}
	if refusal := c.refusal.Load(); refusal != nil {
		return 0, refusal
	}
	return n, err
}

// refusalLimit bounds the time in which a refusal is read after a failed Write. It came before the failure.
const refusalLimit = 20 * time.Millisecond

// Write writes.
func (c *firstWords) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !c.heard.Load() {
		if c.SetReadDeadline(time.Now().Add(refusalLimit)) == nil {
			_, _ = c.Read(make([]byte, len("-ERR max number of clients + cluster connections reached\r\n")))
		}
	}
	if refusal := c.refusal.Load(); refusal != nil {
		return 0, refusal
	}
	return n, err
}
