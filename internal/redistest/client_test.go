package redistest_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const replyLimit = 5 * time.Second

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func tlsClient(t *testing.T, addr string, s *redistest.Server) net.Conn {
	t.Helper()
	return tls.Client(dial(t, addr), s.TLSConfig())
}

// encode returns requests, whose arguments hold no white space, as RESP.
func encode(requests ...string) string {
	var out strings.Builder
	for _, request := range requests {
		args := strings.Fields(request)
		fmt.Fprintf(&out, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	return out.String()
}

// send sends requests, see encode, as one write.
func send(t *testing.T, conn net.Conn, requests ...string) {
	t.Helper()
	if _, err := conn.Write([]byte(encode(requests...))); err != nil {
		t.Fatal(err)
	}
}

// receive returns what comes first within the limit.
func receive(conn net.Conn, limit time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

func ping(t *testing.T, conn net.Conn) string {
	t.Helper()
	send(t, conn, "PING")
	reply, err := receive(conn, replyLimit)
	if err != nil {
		t.Fatalf("PING: %v", err)
	}
	return reply
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(replyLimit)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("received %.200q, %v; want %.200q", got[:n], err, want)
	}
}

func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := receive(conn, silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q, %v; want nothing", got, err)
	}
}

func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := receive(conn, replyLimit); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("received %q, %v; want a reset", got, err)
	}
}

// expectRefused expects a reset of a new connection, which may come so soon
// that dialling fails already.
func expectRefused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expectReset(t, conn)
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(replyLimit):
		t.Fatal("no reply was swallowed")
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(replyLimit); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", replyLimit, what)
		}
	}
}
