package redistest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// silence is how long a test listens before it takes a connection for silent.
// If it is too short a fault goes unseen; it cannot make a test fail.
const silence = 100 * time.Millisecond

func startProxy(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, redistest.NewProxy(t, s.Addr())
}

func TestProxyPassesOn(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	conn := dial(t, p.Addr())
	send(t, conn, "SET k "+strings.Repeat("x", 1<<20))
	expect(t, conn, "+OK\r\n")
	if got := s.Cli(t, "STRLEN", "k"); got != "1048576" {
		t.Errorf("STRLEN: %s", got)
	}
	send(t, conn, "GET k")
	expect(t, conn, "$1048576\r\n"+strings.Repeat("x", 1<<20)+"\r\n")
	send(t, conn, "QUIT")
	expect(t, conn, "+OK\r\n")
	if got, err := receive(conn, replyLimit); !errors.Is(err, io.EOF) {
		t.Errorf("after QUIT: %q, %v", got, err)
	}
}

func TestProxyPassesOnTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS())
	p := redistest.NewProxy(t, s.Addr())
	conn := tlsClient(t, p.Addr(), s)
	for range 3 {
		if got := ping(t, conn); got != "+PONG\r\n" {
			t.Fatalf("PING: %q", got)
		}
	}
}

func TestProxyCountsRequests(t *testing.T) {
	t.Parallel()
	_, p := startProxy(t)
	conn := dial(t, p.Addr())
	// Two and a half requests, then the rest of the third.
	all := encode("INCR a", "GET INCR", "incr a")
	for _, part := range []string{all[:len(all)-9], all[len(all)-9:]} {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, conn, ":1\r\n$-1\r\n:2\r\n")
	if got := p.Requests(redistest.Command("INCR")); got != 2 {
		t.Errorf("%d INCR, want 2", got)
	}
	if got := p.Requests(anyRequest); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}
}

func TestProxyCut(t *testing.T) {
	t.Parallel()
	_, p := startProxy(t)
	conn := dial(t, p.Addr())
	ping(t, conn)
	p.Cut()
	expectReset(t, conn)
	if got := ping(t, dial(t, p.Addr())); got != "+PONG\r\n" {
		t.Errorf("a new connection: %q", got)
	}
}

func TestProxyRefuse(t *testing.T) {
	t.Parallel()
	_, p := startProxy(t)
	old := dial(t, p.Addr())
	ping(t, old)
	p.Refuse(true)
	expectRefused(t, p.Addr())
	ping(t, old)
	p.Refuse(false)
	ping(t, dial(t, p.Addr()))
}

func TestProxyWithoutServer(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	conn := dial(t, p.Addr())
	ping(t, conn)
	s.Kill()
	if got, err := receive(conn, replyLimit); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after Kill: %q, %v", got, err)
	}
	expectRefused(t, p.Addr())
	s.Restart()
	ping(t, dial(t, p.Addr()))
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dir  redistest.Direction
		seen string // by the server while it lasts
	}{
		"to server": {redistest.ToServer, ""},
		"to client": {redistest.ToClient, "v"},
		"both":      {redistest.Both, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := startProxy(t)
			conn := dial(t, p.Addr())
			ping(t, conn)
			p.BlackHole(test.dir, true)
			send(t, conn, "SET k v")
			expectSilence(t, conn)
			if got := s.Cli(t, "GET", "k"); got != test.seen {
				t.Errorf("the server has %q, want %q", got, test.seen)
			}
			p.BlackHole(test.dir, false)
			expect(t, conn, "+OK\r\n")
			if got := s.Cli(t, "GET", "k"); got != "v" {
				t.Errorf("afterwards the server has %q, want v", got)
			}
		})
	}
}

func TestProxyBlackHoleOutlivesClient(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	conn := dial(t, p.Addr())
	p.BlackHole(redistest.ToServer, true)
	send(t, conn, "SET k v")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the proxy has the request", func() bool { return p.Requests(redistest.Command("SET")) == 1 })
	if got := s.Cli(t, "GET", "k"); got != "" {
		t.Fatalf("the server has %q too early", got)
	}
	p.BlackHole(redistest.ToServer, false)
	waitFor(t, "the late request has arrived", func() bool { return s.Cli(t, "GET", "k") == "v" })
}

func TestProxyCutLosesWhatIsHeld(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	conn := dial(t, p.Addr())
	p.BlackHole(redistest.ToServer, true)
	send(t, conn, "SET k v")
	waitFor(t, "the proxy has the request", func() bool { return p.Requests(redistest.Command("SET")) == 1 })
	p.Cut()
	expectReset(t, conn)
	p.BlackHole(redistest.ToServer, false)
	ping(t, dial(t, p.Addr()))
	if got := s.Cli(t, "GET", "k"); got != "" {
		t.Errorf("the server has %q", got)
	}
}

func TestProxyDelay(t *testing.T) {
	t.Parallel()
	_, p := startProxy(t)
	conn := dial(t, p.Addr())
	ping(t, conn)
	const delay = 50 * time.Millisecond
	p.Delay(redistest.Both, delay)
	begin := time.Now()
	ping(t, conn)
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a round trip took %v, want %v or more", took, 2*delay)
	}
}

func TestProxySwallowThenSilence(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	other, conn := dial(t, p.Addr()), dial(t, p.Addr())
	ping(t, other)
	swallowed := p.SwallowNextReply(redistest.Command("incr"), redistest.ThenSilence)
	send(t, conn, "GET k", "INCR k", "INCR k")
	expect(t, conn, "$-1\r\n")
	await(t, swallowed)
	expectSilence(t, conn)
	waitFor(t, "both requests have been carried out", func() bool { return s.Cli(t, "GET", "k") == "2" })
	send(t, other, "INCR k")
	expect(t, other, ":3\r\n")
}

func TestProxySwallowThenReset(t *testing.T) {
	t.Parallel()
	s, p := startProxy(t)
	conn := dial(t, p.Addr())
	swallowed := p.SwallowNextReply(redistest.Command("INCR"), redistest.ThenReset)
	send(t, conn, "PING", "INCR k")
	expect(t, conn, "+PONG\r\n")
	expectReset(t, conn)
	await(t, swallowed)
	if got := s.Cli(t, "GET", "k"); got != "1" {
		t.Errorf("the server has %q, want 1", got)
	}
}

// Messages are not replies, so they must not be counted as such.
func TestProxySwallowAmongMessages(t *testing.T) {
	t.Parallel()
	for version, seen := range map[int]string{
		2: "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
		3: ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	} {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			t.Parallel()
			s, p := startProxy(t)
			conn := dial(t, p.Addr())
			send(t, conn, fmt.Sprintf("HELLO %d", version))
			if _, err := receive(conn, replyLimit); err != nil {
				t.Fatal(err)
			}
			send(t, conn, "SUBSCRIBE c")
			waitFor(t, "it has subscribed", func() bool { return s.Cli(t, "PUBLISH", "c", "m") == "1" })
			expect(t, conn, seen)
			swallowed := p.SwallowNextReply(redistest.Command("PING"), redistest.ThenSilence)
			send(t, conn, "PING")
			await(t, swallowed)
			s.Cli(t, "PUBLISH", "c", "m")
			expectSilence(t, conn)
		})
	}
}

func TestProxyCarriesReplication(t *testing.T) {
	t.Parallel()
	primary, p := startProxy(t)
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+port))
	waitFor(t, "the replica is linked", func() bool {
		return strings.Contains(replica.Cli(t, "INFO", "replication"), "master_link_status:up")
	})
	primary.Cli(t, "SET", "k", "v")
	waitFor(t, "the replica has the write", func() bool { return replica.Cli(t, "GET", "k") == "v" })
}

func anyRequest([]byte) bool { return true }
