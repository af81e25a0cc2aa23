//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const javaOwner = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"

// TestUnlockAsks answers the question on a terminal, one way and the other.
func TestUnlockAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Cli(t, "HSET", "job", javaOwner, "1")
	unlock := func(answer string) int {
		cmd := holdfast(t, "redis://"+server.Addr(), "unlock", "--force", "job")
		c := onTerminal(t, cmd)
		c.shows(`the mutex "job" is held by ` + javaOwner)
		c.shows("Take it away? [y/N]")
		c.types(answer)
		return code(t, cmd.Wait())
	}
	for answer, want := range map[string]int{"n\n": 1, "\n": 1, "\x04": 1, "\x03": 130} {
		if got := unlock(answer); got != want || server.Cli(t, "EXISTS", "job") != "1" {
			t.Errorf("%q: exit code %d, want %d", answer, got, want)
		}
	}
	if got := unlock("y\n"); got != 0 || server.Cli(t, "EXISTS", "job") != "0" {
		t.Errorf("exit code %d", got)
	}
}

// TestWatchOnTerminal takes a lock away, quits, and looks whether the terminal is as it was.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Cli(t, "HSET", "\x1b[5mblinking", javaOwner, "1")
	cmd := holdfast(t, "redis://"+server.Addr())
	cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"), "TERM=xterm-256color")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `stty -a >$0/before; holdfast watch --interval 100ms; echo "code $?"; stty -a >$0/after; cmp $0/before $0/after && echo same`, t.TempDir()}
	c := onTerminal(t, cmd)
	c.shows("[5mblinking")
	c.types("u")
	c.shows("take it away")
	c.types("y")
	c.shows("no locks")
	c.types("q")
	c.shows("code 0")
	c.shows("same")
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("exit code %d", got)
	}
	if strings.Contains(c.String(), "\x1b[5m") {
		t.Error("a name reaches the terminal as it is")
	}
}

// TestWaitHears waits for each kind of lock on a server and on a cluster, and is told of the release: in less time than
// it would have slept.
func TestWaitHears(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"standalone": func(t *testing.T) string { t.Helper(); return "redis://" + redistest.Start(t).Addr() },
		"cluster": func(t *testing.T) string {
			t.Helper()
			return "redis://" + strings.Join(redistest.StartCluster(t, 3, 0).Addrs(), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := url(t)
			for _, kind := range []string{"mutex", "fair", "read", "write", "permits"} {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					testWaitHears(t, url, kind)
				})
			}
		})
	}
}

// lockedText is what a command says, while it says it.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to it.
func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func testWaitHears(t *testing.T, url, kind string) {
	t.Helper()
	args := []string{"run", "--kind", kind, "lock of " + kind}
	if kind == "permits" {
		args = append(args, "--permits", "2")
	}
	holder := holdfast(t, url, append(args, "--", "sleep", "1000")...)
	start(t, holder)
	eventually(t, "held", func() bool {
		out, err := holdfast(t, url, "show", "--json", "lock of "+kind).Output()
		return err == nil && strings.Contains(string(out), `"state":"held"`)
	})
	waiter := holdfast(t, url, "wait", "--json", "lock of "+kind)
	out := &lockedText{}
	waiter.Stdout, waiter.Stderr = out, out
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "waiting", func() bool { return strings.Contains(out.String(), "holdfast: waiting: ") })
	_ = holder.Process.Signal(os.Interrupt)
	began := time.Now()
	if got := code(t, waiter.Wait()); got != 0 {
		t.Fatalf("exit code %d: %s", got, out)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	var done struct {
		Free   bool  `json:"free"`
		Waited int64 `json:"waited_ms"`
	}
	_, line, _ := strings.Cut(out.String(), "{")
	if err := json.Unmarshal([]byte("{"+line), &done); err != nil || !done.Free || done.Waited < 1000 {
		t.Errorf("%+v, %v: %s", done, err, out)
	}
	_ = holder.Wait()
}
