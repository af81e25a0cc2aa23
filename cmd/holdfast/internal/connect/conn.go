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
	// announcedLimit bounds a dial to an address that sentinels or a cluster have announced. It is shorter than an attempt of the
	// library, so the error of the dial becomes the error of the call.
	announcedLimit = 1500 * time.Millisecond
	// announcedFor is how long later dials fail with the same error: the Redis client dials several times.
	announcedFor = time.Second
)

// unreached records failed dials to addresses that sentinels or a cluster have announced.
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
		return nil, failed // not recorded: the caller may have left before the dial could succeed
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

// firstWords is a connection without TLS whose reads and writes fail with the server's refusal, if that is the first thing it sends.
// The Redis client would take the refusal for the reply to HELLO, continue, and report that the connection was closed.
type firstWords struct {
	net.Conn

	raw     syscall.Conn
	heard   atomic.Bool // something was read
	refusal atomic.Pointer[refusalError]
}

// refusalError is the error reply with which a server refuses a connection.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// listenFirst wraps a connection without TLS in a firstWords, and returns any other one as it is.
func listenFirst(conn net.Conn) net.Conn {
	raw, plain := conn.(syscall.Conn)
	if !plain {
		return conn
	}
	return &firstWords{Conn: conn, raw: raw}
}

// SyscallConn lets the Redis client see whether an idle connection is dead.
func (c *firstWords) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// Read returns a [refusalError] if the first bytes that it reads are a refusal, and from then on.
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

// refusalLimit bounds the read of a refusal after a failed Write. The refusal arrived before the failure, so a short time is enough.
const refusalLimit = 20 * time.Millisecond

// Write returns a [refusalError] if the server has refused the connection: a failed write looks for an unread refusal.
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
