package driverkit

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// answering accepts connections, and says something to each at once.
func answering(t *testing.T, says string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, says)
			if says != "" {
				_ = conn.Close()
			}
		}
	}()
	return listener.Addr().String()
}

// TestRefused: an error that says that a connection was closed tells how a server refuses new ones.
func TestRefused(t *testing.T) {
	t.Parallel()
	full, accepting, other := answering(t, "-ERR max number of clients reached\r\n"), answering(t, ""), answering(t, "-ERR s3cret\r\n")
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	for _, c := range []struct {
		addrs []string
		cause error
		says  bool
	}{
		{[]string{full}, io.EOF, true},
		{[]string{full}, &net.OpError{Err: syscall.EPIPE}, true},
		{[]string{accepting, full, "127.0.0.1:1"}, syscall.ECONNRESET, true},
		{[]string{full}, errors.New("other"), false},
		{[]string{accepting}, io.EOF, false},
		{[]string{other}, io.EOF, false},
		{nil, io.EOF, false},
	} {
		var refused Refused
		servers := func() ([]string, Dial) { return c.addrs, dial }
		failure := driver.ConnectionError(c.cause, false)
		refused.closed.Store(true) // a busy machine takes its time
		got := refused.Explain(failure, servers)
		var failed *driver.Error
		if !errors.Is(got, c.cause) || !errors.As(got, &failed) || !failed.MayHaveRun || !failed.Transient {
			t.Errorf("%v: %#v", c, got)
		}
		want := c.cause.Error()
		if c.says {
			want += ": " + full + " refuses connections: ERR max number of clients reached"
		}
		if got.Error() != want {
			t.Errorf("%v: %v", c, got)
		}
		if err := refused.Explain(nil, servers); err != nil || refused.closed.Load() {
			t.Errorf("%v, after a reply: %v", c, err)
		}
	}
}
