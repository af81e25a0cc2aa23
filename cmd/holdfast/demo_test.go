//go:build unix

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// limit is what the demo promises, from its first word to its last. How long the build takes before is the machine's affair.
const limit = 20 * time.Second

// inAll is how long it says that it took, in seconds.
var inAll = regexp.MustCompile(`([\d.]+)\s+s\s+in\s+all\.`)

var measured = []*regexp.Regexp{
	regexp.MustCompile(`Contention: \d+ stays by 5 workers, 0 overlaps\.`),
	regexp.MustCompile(`Lock again: [0-9a-f-]{36}:1 -> 2`),
	regexp.MustCompile(`Reentrancy: one hash field, count 1, 2, 1, then no key\.`),
	regexp.MustCompile(`Watchdog: a lease of 1\.5 s was held for 4\.[5-9] s\.`),
	regexp.MustCompile(`Crash: taken over \d\.\d s after the kill`),
	regexp.MustCompile(`Forced unlock: the holder knew after [\d.]+ ms\.`),
	regexp.MustCompile(`Network cut: the holder knew \d{3,4} ms before its key could expire\.`),
	regexp.MustCompile(`6 keys used, 0 left behind`),
}

// shown is what each show must say, that is asked for by name.
var shown = map[string][]*regexp.Regexp{
	"fair": {
		regexp.MustCompile(`Fairness: 5 of 5 waiters`),
		regexp.MustCompile(`Giving up: the place in line was gone`),
		regexp.MustCompile(`8 keys used, 0 left behind`),
	},
	"permits": {
		regexp.MustCompile(`Semaphore: [1-9]\d* stays of 7 jobs, at most [23] at once\.`),
		regexp.MustCompile(`GET answers 3 available, ZCARD 0 held\.`),
		regexp.MustCompile(`Crash: taken over \d\.\d s after the kill`),
		regexp.MustCompile(`6 keys used, 0 left behind`),
	},
	"multi": {
		regexp.MustCompile(`both have given up`),
		regexp.MustCompile(`Multi-lock: [1-9]\d* transfers in both orders, 0 overlaps\.`),
		regexp.MustCompile(`All or nothing: with B held, A was not taken`),
		regexp.MustCompile(`6 keys used, 0 left behind`),
	},
	"latch": {
		regexp.MustCompile(`nobody has started`),
		regexp.MustCompile(`Latch: 5 runners started within [\d.]+ ms of the gun\.`),
		regexp.MustCompile(`Latch: the judge went on when all 5 had arrived\.`),
		regexp.MustCompile(`6 keys used, 0 left behind`),
	},
	"redlock": {
		regexp.MustCompile(`Server 1: ([0-9a-f]{8}), 2:\s+[0-9a-f]{8}, 3:\s+[0-9a-f]{8}`),
		regexp.MustCompile(`RedLock: held for ([3-9]|\d\d)\.\d s after one server of 3 was stopped\.`),
		regexp.MustCompile(`No quorum: the holder knew \d\.\d s`),
		regexp.MustCompile(`1: no answer, 2: no\s+answer, 3: free`),
	},
	"rw": {
		regexp.MustCompile(`Read-write: up to [2-4] readers at once, [1-9]\d* writes, 0 overlaps with a write\.`),
		regexp.MustCompile(`Write lock: [0-9a-f-]{36}:1:write -> 1, mode ->\s+write`),
		regexp.MustCompile(`Downgrade: a reader joined [\d.]+ ms after`),
		regexp.MustCompile(`2 keys used, 0 left behind`),
	},
	"fenced": {
		regexp.MustCompile(`rejects it: token \d+ is older than\s+\d+\. It has "B was here"`),
		regexp.MustCompile(`Fencing: the late write was rejected`),
		regexp.MustCompile(`Tokens: 5 of 5`),
		regexp.MustCompile(`4 keys used, 0 left behind`),
	},
}

// TestDemoShows plays what the demo shows on request: embedded, on a server, and
// on a cluster.
func TestDemoShows(t *testing.T) {
	t.Parallel()
	if help, err := holdfast(t, "", "demo", "--help").Output(); err != nil {
		t.Error(err)
	} else {
		for name := range shown {
			if !strings.Contains(string(help), "\n    "+name+" ") {
				t.Errorf("the help does not list %s", name)
			}
		}
	}
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3, 0)
	places := map[string]string{
		"embedded": "", "server": "redis://" + server.Addr(), "cluster": "redis://" + strings.Join(cluster.Addrs(), ","),
	}
	t.Run("all", func(t *testing.T) {
		for place, url := range places {
			t.Run(place, func(t *testing.T) {
				t.Parallel()
				for name, want := range shown { // one after the other: they are about times
					t.Run(name, func(t *testing.T) { playShow(t, holdfast(t, url, "demo", name), want) })
				}
			})
		}
	})
	for _, s := range append(cluster.Nodes, server) {
		wantNoKeys(t, s)
	}
}

// asReleased is the environment of a build as a release has it: without C, which -race needs here.
func asReleased() []string { return append(os.Environ(), "CGO_ENABLED=0") }

// TestDemo plays the demo as the README says, from the root, and on a server.
func TestDemo(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		build := exec.Command("go", "build", "-o", t.TempDir()+"/holdfast", "./cmd/holdfast")
		build.Dir, build.Env = "../..", asReleased()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/holdfast", "demo")
		cmd.Dir, cmd.Env = "../..", asReleased()
		play(t, cmd)
	})
	t.Run("tenant", func(t *testing.T) { // on a server of its own the demo belongs to none
		t.Parallel()
		cmd := holdfast(t, "", "demo", "permits")
		cmd.Env = append(cmd.Env, "HOLDFAST_TENANT=billing")
		playShow(t, cmd, shown["permits"])
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithPassword("s3cret"))
		cmd := holdfast(t, "", "demo", "--redis", "redis://:s3cret@"+server.Addr())
		if out := play(t, cmd); strings.Contains(out, "s3cret") {
			t.Error("the password is shown")
		}
		wantNoKeys(t, server)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0)
		play(t, holdfast(t, "redis://"+strings.Join(cluster.Addrs(), ","), "demo"))
	})
}

func play(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	return playShow(t, cmd, measured)
}

func playShow(t *testing.T, cmd *exec.Cmd, want []*regexp.Regexp) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	t.Logf("%v:\n%s", err, out)
	if err != nil {
		t.Error(err)
	}
	said := inAll.FindSubmatch(out)
	if said == nil {
		t.Fatal("it does not say how long it took")
	}
	if took, err := strconv.ParseFloat(string(said[1]), 64); err != nil || took > limit.Seconds() {
		t.Errorf("it took %s s, more than %v: %v", said[1], limit, err)
	}
	for _, line := range want {
		if !line.Match(out) {
			t.Errorf("it does not say %v", line)
		}
	}
	return string(out)
}

// TestDemoInterrupted ends it early, in its middle: it cleans up.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := holdfast(t, "redis://"+server.Addr(), "demo")
	start(t, cmd)
	eventually(t, "a lock is held", func() bool { return strings.Contains(server.Cli(t, "KEYS", "*"), "renewed") })
	send(t, cmd, syscall.SIGINT)
	if got := code(t, cmd.Wait()); got != 130 {
		t.Errorf("exit code %d", got)
	}
	wantNoKeys(t, server)
}

// TestDemoFails deletes a lock in the middle: the demo says that it is not as it
// should be.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := holdfast(t, "redis://"+server.Addr(), "demo")
	out := start(t, cmd)
	key := ""
	eventually(t, "a lock is held", func() bool {
		key = server.Cli(t, "KEYS", "*:renewed")
		return key != ""
	})
	server.Cli(t, "DEL", key)
	if got := code(t, cmd.Wait()); got != 1 || !strings.Contains(out.String(), "holdfast: not as promised: scene 3: ") {
		t.Errorf("exit code %d: %s", got, out)
	}
	wantNoKeys(t, server)
}

// TestDemoShowsFail takes locks away in the middle of shows.
func TestDemoShowsFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	t.Run("all", func(t *testing.T) {
		for name, c := range map[string]struct{ key, says string }{
			"rw":        {"downgrade", "holdfast: not as promised: scene 2: "},
			"semaphore": {"permits", "holdfast: not as promised: scene 1: "},
			"multi":     {"both:a", "holdfast: not as promised: scene 2: "},
			"fenced":    {"fenced", "holdfast: not as promised: scene 1: the key was gone before"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cmd := holdfast(t, "redis://"+server.Addr(), "demo", name)
				out := start(t, cmd)
				eventually(t, "the lock is taken away", func() bool {
					key := server.Cli(t, "KEYS", "holdfast-demo:*:"+c.key)
					return key != "" && server.Cli(t, "DEL", key) == "1"
				})
				if got := code(t, cmd.Wait()); got != 1 || !strings.Contains(out.String(), c.says) {
					t.Errorf("exit code %d: %s", got, out)
				}
			})
		}
	})
	wantNoKeys(t, server)
}

// TestDemoWithoutServer says so and exits with 69.
func TestDemoWithoutServer(t *testing.T) {
	t.Parallel()
	out, err := holdfast(t, "redis://127.0.0.1:1", "demo").CombinedOutput()
	if got := code(t, err); got != 69 || !strings.HasPrefix(string(out), "holdfast: Redis (127.0.0.1:1) cannot be used: ") {
		t.Errorf("exit code %d: %s", got, out)
	}
}
