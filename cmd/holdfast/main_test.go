//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// quickExit keeps the race detector from sleeping for a second at each exit.
const quickExit = "GORACE=atexit_sleep_ms=0"

// TestMain makes the test binary a holdfast, or a heartbeat, when it is called by that name.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"holdfast": main, "heartbeat": heartbeat, "asroot": asRoot})
}

// asRoot stands in for sudo: with the set-user-ID bit it becomes root altogether, and then its arguments.
func asRoot() {
	must(syscall.Setgid(0))
	must(syscall.Setuid(0))
	path, err := exec.LookPath(os.Args[1])
	must(err)
	must(syscall.Exec(path, os.Args[1:], os.Environ()))
}

// tests is what runs if the binary is not called as holdfast.
type tests struct{ *testing.M }

// Run runs them, more of them at once than there are processors: most of them wait
// for commands most of the time. A signal that whoever has started them ignores, as nohup has it,
// or a shell with a command in the background, would be ignored by the commands,
// too; one that is caught here is not.
func (m tests) Run() int {
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	for _, sig := range forwarded {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	return m.M.Run()
}

// TestScripts runs the scripts, each with a Redis server of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(env *testscript.Env) error {
					_, port, err := net.SplitHostPort(server.Addr())
					env.Setenv("HOLDFAST_REDIS", "redis://"+server.Addr())
					env.Setenv("PORT", port)
					env.Setenv("GORACE", strings.TrimPrefix(quickExit, "GORACE="))
					env.Values[lastDuration{}] = new(time.Duration)
					return err
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits, "quiet": quiet,
					"awaitkeys": func(ts *testscript.TestScript, neg bool, args []string) { awaitKeys(ts, neg, args, server) },
				},
			})
		})
	}
}

// exits runs a command and checks its exit code: exits 75 holdfast run ....
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [arg…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, start := 0, time.Now()
	err = ts.Exec(args[1], args[2:]...)
	*ts.Value(lastDuration{}).(*time.Duration) = time.Since(start)
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// awaitKeys waits until so many keys are left: awaitkeys 0.
func awaitKeys(ts *testscript.TestScript, neg bool, args []string, server *redistest.Server) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: awaitkeys number")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left, err = keysLeft(server)
		ts.Check(err)
		if len(left) == want {
			return
		}
	}
	ts.Fatalf("%d keys are left: %q", len(left), left)
}

// keysLeft returns the keys of a server, but for what clients have said of themselves: as they close they take it back if
// Redis answers soon, and otherwise it expires.
func keysLeft(server *redistest.Server) (left []string, err error) {
	all, err := server.Ask(patience, "KEYS", "*")
	for line := range strings.Lines(all) {
		key := strings.TrimSuffix(line, "\n")
		ttl, err := server.Ask(patience, "PTTL", key)
		if err != nil {
			return nil, err
		}
		if ttl == "-1" || !strings.HasPrefix(key, "holdfast_client:") {
			left = append(left, key)
		}
	}
	return left, err
}

// wantNoKeys checks that nothing is left on a server.
func wantNoKeys(t *testing.T, server *redistest.Server) {
	t.Helper()
	if left, err := keysLeft(server); len(left) > 0 || err != nil {
		t.Errorf("keys left behind: %q, %v", left, err)
	}
}

// lastDuration is the key of how long the last command took that exits has run.
type lastDuration struct{}

// quiet checks that that command has said nothing, but perhaps that it waits for a lock.
func quiet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: quiet")
	}
	if said := unlessWaiting(ts.ReadFile("stderr"), *ts.Value(lastDuration{}).(*time.Duration)); said != "" {
		ts.Fatalf("it said %q", said)
	}
}

var waits = regexp.MustCompile(`(?m)^holdfast: (still )?waiting for .*\n`)

// unlessWaiting is what a command has said, but for that it waits, which it says after a second: a busy machine answers late.
func unlessWaiting(said string, took time.Duration) string {
	if took < time.Second {
		return said
	}
	return waits.ReplaceAllString(said, "")
}

// patience is for how long a command may run.
const patience = time.Minute

// holdfast returns a command that runs the tool against a URL, and is killed if it
// does not end.
func holdfast(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.WaitDelay = time.Second // for what it has started, and holds its output
	cmd.Args[0] = "holdfast"
	cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+url, "HOLDFAST_REDIS_PASSWORD=", quickExit)
	return cmd
}

// code is the exit code that an ended command has left.
func code(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("the command did not run: %v", err)
	}
	if err == nil {
		return 0
	}
	return exit.ExitCode()
}
