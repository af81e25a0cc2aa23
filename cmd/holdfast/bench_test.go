//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestBenchInterrupted ends a long run early: it says what was measured, and leaves
// nothing behind.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM} {
		for _, kind := range []string{"mutex", "fair", "write"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				cmd := holdfast(t, "redis://"+server.Addr(), "bench", "--duration", "1h", "--goroutines", "20", "--hold", "5ms", "--kind", kind)
				out := start(t, cmd)
				eventually(t, "there are locks", func() bool { return server.Cli(t, "KEYS", "holdfast-bench:*:0") != "" })
				send(t, cmd, sig)
				if got := code(t, cmd.Wait()); got != 128+int(sig) {
					t.Errorf("exit code %d", got)
				}
				if !strings.Contains(out.String(), ", interrupted\n") || !strings.Contains(out.String(), "  pairs ") {
					t.Errorf("it says:\n%s", out)
				}
				wantNoKeys(t, server)
			})
		}
	}
}

// TestBenchLosesLocks has somebody delete a lock while it is held: that pair fails, and the
// run says so.
func TestBenchLosesLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := holdfast(t, "redis://"+server.Addr(), "bench", "--duration", "1h", "--goroutines", "1", "--hold", "20ms")
	out := start(t, cmd)
	key := ""
	eventually(t, "a lock is deleted", func() bool {
		key, _, _ = strings.Cut(server.Cli(t, "KEYS", "holdfast-bench:*:0"), "\n")
		return key != "" && server.Cli(t, "DEL", key) == "1"
	})
	eventually(t, "the next pair has begun", func() bool { return server.Cli(t, "EXISTS", key) == "1" })
	send(t, cmd, syscall.SIGINT)
	if got := code(t, cmd.Wait()); got != 1 {
		t.Errorf("exit code %d:\n%s", got, out)
	}
	if !strings.Contains(out.String(), "\n  failed   1 pair\n") {
		t.Errorf("it says:\n%s", out)
	}
}

// TestBenchWithoutServer says so, and exits with 69, before anything is measured.
func TestBenchWithoutServer(t *testing.T) {
	t.Parallel()
	out, err := holdfast(t, "redis://u:s3cret@127.0.0.1:1", "bench", "--duration", "1h").CombinedOutput()
	if got := code(t, err); got != 69 || !strings.HasPrefix(string(out), "holdfast: Redis (127.0.0.1:1) cannot be used: ") || strings.Contains(string(out), "s3cret") {
		t.Errorf("exit code %d: %s", got, out)
	}
}

// TestBenchCluster runs on a cluster, where each lock may be on another node.
func TestBenchCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	cmd := holdfast(t, "redis://"+strings.Join(cluster.Addrs(), ","), "bench", "--duration", "1s", "--goroutines", "6", "--locks", "6", "--json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Pairs int `json:"pairs"`
		Waits []struct {
			Count int `json:"count"`
		} `json:"waits"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, bucket := range result.Waits {
		counted += bucket.Count
	}
	if result.Pairs == 0 || counted != result.Pairs {
		t.Errorf("%d waits counted: %s", counted, out)
	}
	for _, s := range cluster.Nodes {
		wantNoKeys(t, s)
	}
}

// TestBenchOnTerminal draws a bar while it runs, and wipes it in the end.
func TestBenchOnTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := holdfast(t, "redis://"+server.Addr(), "bench", "--duration", "1h", "--goroutines", "2")
	cmd.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://"+server.Addr(), "TERM=xterm-256color", quickExit)
	c := onTerminal(t, cmd)
	c.shows(" pairs, 1h0m0s left")
	c.shows("0%")
	c.types("\x03")
	c.shows(", interrupted")
	if got := code(t, cmd.Wait()); got != 130 {
		t.Errorf("exit code %d", got)
	}
}
