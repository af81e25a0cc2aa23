package connect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestUnreached: an address that was announced, and to which no connection is made, is dialled once for the dials that follow one another,
// and not for long; another caller's cancelled dial does not count.
func TestUnreached(t *testing.T) {
	t.Parallel()
	var u unreached
	dialled, away := 0, errors.New("away")
	dial := func(ctx context.Context, _, addr string, limit time.Duration) (net.Conn, error) {
		dialled++
		if limit != announcedLimit {
			t.Errorf("it may take %v", limit)
		}
		if addr == "there:1" {
			conn, _ := net.Pipe()
			return conn, nil
		}
		return nil, errors.Join(away, ctx.Err())
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for i, c := range []struct {
		ctx     context.Context
		addr    string
		dialled int
	}{
		{cancelled, "gone:1", 1},
		{t.Context(), "gone:1", 2},
		{t.Context(), "gone:1", 2},
		{t.Context(), "gone:2", 3},
		{t.Context(), "there:1", 4},
		{t.Context(), "there:1", 5},
	} {
		conn, err := u.dial(c.ctx, "tcp", c.addr, dial)
		if dialled != c.dialled || (conn == nil) != strings.HasPrefix(c.addr, "gone") {
			t.Errorf("%d: %v after %d dials", i, err, dialled)
		}
		if conn == nil && (!errors.Is(err, away) || !strings.Contains(Explain(err).Error(), "announce "+c.addr+", which cannot be reached")) {
			t.Errorf("%d: %v", i, Explain(err))
		}
	}
}

// TestFirstWords: a server's refusal is the error of every Read and Write, whichever comes first, and nothing else is changed.
func TestFirstWords(t *testing.T) {
	t.Parallel()
	for says, refused := range map[string]bool{
		"-ERR max number of clients reached\r\n": true, "-ERR max number of clients + cluster connections reached\r\n": true,
		"-NOAUTH Authentication required.\r\n": false, "+PONG\r\n": false,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		conn, err := new(Target).Dial(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(server, says)
		_ = server.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if refused != (err != nil && strings.Contains(err.Error(), "max number of clients")) || !refused && line != says {
			t.Errorf("%q is read as %q, %v", says, line, err)
		}
		if _, err := conn.Write([]byte("x")); refused != (err != nil && strings.Contains(err.Error(), "max number of clients")) {
			t.Errorf("%q, and a Write: %v", says, err)
		}
	}
}
