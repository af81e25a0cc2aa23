package redistest

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestStartTriesAnotherPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := newConfig(nil)
	tries := 0
	cfg.port = func() (int, error) {
		if tries++; tries == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}
	s := start(t, cfg)
	if tries != 2 || s.Addr() == taken.Addr().String() {
		t.Errorf("at %s after %d tries", s.Addr(), tries)
	}
}

func TestBlocksOfPortsAreTaken(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	defer releasePort(port)
	if keeper := port - port%blockSize; port == keeper || bindable(keeper) {
		t.Errorf("another process could have the block of port %d", port)
	}
}

func TestStartShowsWhyServerEnded(t *testing.T) {
	t.Parallel()
	s := &Server{t: t, cfg: newConfig([]Option{WithConfig("no-such-directive 1")}), dir: t.TempDir()}
	t.Cleanup(s.cleanup)
	if err := s.launch(); err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v", err)
	}
}

func TestRESPReader(t *testing.T) {
	t.Parallel()
	want := []string{
		"+OK\r\n", "-ERR x\r\n", ":1\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(1\r\n",
		"$3\r\na\r\n\r\n", "$-1\r\n", "$0\r\n\r\n", "=5\r\ntxt:x\r\n", "!1\r\nx\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
		"%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n", "~1\r\n:1\r\n", ">2\r\n+a\r\n+b\r\n",
		"|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n",
	}
	in := newRESPReader(iotest.OneByteReader(strings.NewReader(strings.Join(want, ""))))
	for _, w := range want {
		if v, err := in.next(); err != nil || string(v.raw) != w || v.kind != w[0] {
			t.Fatalf("got %q of kind %q, %v; want %q", v.raw, v.kind, err, w)
		}
	}
	if v, err := in.next(); !errors.Is(err, io.EOF) || len(v.raw) != 0 {
		t.Fatalf("at the end: %q, %v", v.raw, err)
	}
}

func TestRESPReaderPassesOnTheRest(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"\x16\x03\x01", "PING\r\n", "*x\r\n:1\r\n", "$5\r\nab", "$EOF:0123\r\nxyz"} {
		in := newRESPReader(strings.NewReader("+OK\r\n" + rest))
		if v, err := in.next(); err != nil || string(v.raw) != "+OK\r\n" {
			t.Fatalf("before %q: %q, %v", rest, v.raw, err)
		}
		var got []byte
		for {
			v, err := in.next()
			if v.kind != 0 {
				t.Errorf("%q of %q taken for RESP", v.raw, rest)
			}
			got = append(got, v.raw...)
			if err != nil {
				break
			}
		}
		if string(got) != rest {
			t.Errorf("got %q, want %q", got, rest)
		}
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	for request, want := range map[string][]string{
		"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n": {"GET", "\r\n\r\n"},
		"*1\r\n$0\r\n\r\n":                      {""},
		"*1\r\n:1\r\n":                          nil,
		"*1\r\n$9\r\nx\r\n":                     nil,
		"PING\r\n":                              nil,
		"":                                      nil,
	} {
		if got := Args([]byte(request)); !slices.Equal(got, want) {
			t.Errorf("Args(%q) = %q, want %q", request, got, want)
		}
	}
}

func TestViewOfCluster(t *testing.T) {
	t.Parallel()
	view, err := parseView("a 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-9 12 [13->-b]\n" +
		"b 127.0.0.1:3@4,host slave a 0 0 1 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[int]string{0: "127.0.0.1:1", 9: "127.0.0.1:1", 10: "", 12: "127.0.0.1:1", 13: ""} {
		if got := view.owner(slot); got != want {
			t.Errorf("slot %d: %q, want %q", slot, got, want)
		}
	}
	if got := view["127.0.0.1:3"].primary; got != "a" {
		t.Errorf("the replica's master is %q, want a", got)
	}
}

// A node that stands still while the others get to know it knows them afterwards, but they have given it up, and
// Redis does not try again.
func TestClusterJoinsThoughANodeStoodStill(t *testing.T) {
	t.Parallel()
	for range 20 { // they know each other after a tenth of a second, which may have passed
		if joinsThoughANodeStoodStill(t) {
			return
		}
	}
	t.Error("the nodes knew each other each time, before one stood still")
}

// joinsThoughANodeStoodStill reports false if the nodes knew each other too early.
func joinsThoughANodeStoodStill(t *testing.T) bool {
	c := startNodes(t, minMasters)
	first, last := c.Nodes[0], c.Nodes[minMasters-1]
	created := make(chan error, 1)
	go func() { created <- c.create(0) }()
	known := func() string { // what the first one knows of the last one
		text, err := first.cli(pingLimit, "CLUSTER", "NODES")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, last.Addr()) {
				return line
			}
		}
		return ""
	}
	for deadline := time.Now().Add(pollLimit); known() == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the nodes do not meet")
		}
	}
	last.Stop()
	inTime := strings.Contains(known(), "handshake")
	if inTime {
		poll(t, "it is given up", func() error {
			if line := known(); line != "" {
				return errors.New(line)
			}
			return nil
		})
	}
	last.Cont()
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	c.AwaitRecovery(t, minMasters)
	return inTime
}
