//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// heartbeat is a command that ignores SIGTERM, tells that it got it, and changes a
// file as long as it lives, for a minute at most, as does a process that it has started.
// The system notes when that was.
func heartbeat() {
	dir := os.Args[1]
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	if len(os.Args) == 2 {
		started := exec.Command(os.Args[0], dir, "started")
		started.Stdout = os.Stdout // whoever reads that waits for it, too
		must(started.Start())
	} else {
		terms = nil
	}
	alive, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, err := alive.WriteString("\n")
		must(err)
		select {
		case <-terms:
			must(os.WriteFile(filepath.Join(dir, "term"), nil, 0o600))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// TestLost cuts the runner off from Redis, in several ways. Its command must be
// dead before the key expires, and before another has the lock.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(p *redistest.Proxy){
		"black hole":     func(p *redistest.Proxy) { p.BlackHole(redistest.Both, true) },
		"replies lost":   func(p *redistest.Proxy) { p.BlackHole(redistest.ToClient, true) },
		"cut and closed": func(p *redistest.Proxy) { p.Refuse(true); p.Cut() },
	} {
		for _, onLost := range []string{"term", "kill"} {
			t.Run(name+"/"+onLost, func(t *testing.T) {
				t.Parallel()
				testLost(t, cut, onLost, "mutex")
			})
		}
	}
	// Those that expire in other ways than a mutex does.
	for _, kind := range []string{"read", "permits"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testLost(t, func(p *redistest.Proxy) { p.BlackHole(redistest.Both, true) }, "term", kind)
		})
	}
}

// lockers are the kinds that stand at a key that ends with them.
var lockers = []string{"mutex", "fair", "read", "write"}

// rival is a kind that is not beside another one.
func rival(kind string) string {
	if kind == "read" {
		return "write"
	}
	return kind
}

func testLost(t *testing.T, cut func(*redistest.Proxy), onLost, kind string) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	if kind == "permits" {
		server.Cli(t, "SET", "job", "1")
	}
	dir := t.TempDir()
	cmd := holdfast(t, "redis://"+proxy.Addr(), "run", "--kind", kind, "--lease", "30s", "--grace", "3s", "--on-lost", onLost,
		"job", "--", "heartbeat", dir)
	out := start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "alive")) })
	other := holdfast(t, "redis://"+server.Addr(), "run", "-q", "--kind", rival(kind), "job", "--", "date", "+%s%N")
	otherOut := start(t, other)
	cut(proxy)
	expiry := expiryOf(t, server, "job")
	if got := code(t, cmd.Wait()); got != 76 {
		t.Errorf("exit code %d, want 76", got)
	}
	if err := other.Wait(); err != nil {
		t.Fatalf("the other did not get the lock: %v: %s", err, otherOut)
	}
	last := lastTime(t, filepath.Join(dir, "alive"))
	next := parse(t, otherOut.String())
	t.Logf("the command was dead %v before the key's end, %v before the next holder",
		time.Duration(expiry-last), time.Duration(next-last))
	if last >= expiry || last >= next {
		t.Errorf("the command lived at %d; the key ended at %d; the next holder began at %d", last, expiry, next)
	}
	if termed := exists(filepath.Join(dir, "term")); termed != (onLost == "term") {
		t.Errorf("SIGTERM came: %v", termed)
	}
	what := "the lock"
	if kind == "permits" {
		what = "the permit of the semaphore"
	}
	now, fate, end := `holdfast: `+what+` "job" is lost: `, "; the command was sent SIGTERM, and is killed after ", `holdfast: `+what+` "job" was lost (`
	if onLost == "kill" {
		fate = "; the command is killed (SIGKILL)\n"
	}
	if said := out.String(); !strings.HasPrefix(said, now) || !strings.Contains(said, fate) || !strings.Contains(said, "\n"+end) || strings.Count(said, "\n") != 2 {
		t.Errorf("output: %q", out)
	}
}

// ending is a script that tells when a lock expires, or the first permit of a
// semaphore: the server's clock is ours.
const ending = `if redis.call('TYPE', KEYS[1]).ok == 'hash' then
		local now, left = redis.call('TIME'), redis.call('PTTL', KEYS[1])
		return left > 0 and now[1] * 1000 + math.floor(now[2] / 1000) + left or 'it does not'
	end
	return tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])`

// expiryOf returns when a lock expires, in ns.
func expiryOf(t *testing.T, server *redistest.Server, key string) int64 {
	t.Helper()
	at, err := strconv.ParseInt(server.Cli(t, "EVAL", ending, "2", key, "{"+key+"}:timeout"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at * int64(time.Millisecond)
}

// TestShortBlips resets all connections, again and again: as long as renewals get
// through in between, the command is left alone.
func TestShortBlips(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	dir := t.TempDir()
	cmd := holdfast(t, "redis://"+proxy.Addr(), "run", "--lease", "6s", "job", "--",
		"sh", "-c", `trap "exit 1" TERM; echo >$0/ready; until test -e $0/end; do sleep 0.01; done; exit 5`, dir)
	out := start(t, cmd)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it has said %q", out)
		}
	})
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	for range 4 {
		proxy.Cut()
		end := expiryOf(t, server, "job")
		eventually(t, "a renewal after the cut", func() bool { return expiryOf(t, server, "job") > end+int64(100*time.Millisecond) })
	}
	write(t, filepath.Join(dir, "end"), "")
	if got := code(t, cmd.Wait()); got != 5 || out.Len() > 0 {
		t.Errorf("exit code %d, output %q", got, out)
	}
}

// TestDeletedKey deletes the lock: the command is stopped after the next renewal.
func TestDeletedKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, kind := range lockers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ready := filepath.Join(t.TempDir(), "ready")
			cmd := holdfast(t, "redis://"+server.Addr(), "run", "--kind", kind, "--lease", "6s", "job-"+kind, "--",
				"sh", "-c", "echo >"+ready+"; exec sleep 60")
			out := start(t, cmd)
			eventually(t, "the command runs", func() bool { return exists(ready) })
			server.Cli(t, "DEL", "job-"+kind)
			if got := code(t, cmd.Wait()); got != 76 || !strings.Contains(out.String(), "it is not held") || !strings.Contains(out.String(), "ended by signal 15") {
				t.Errorf("exit code %d, output %q", got, out)
			}
		})
	}
}

// TestLossQuiet deletes the lock of a run that prints only errors: it reports the loss once, in the end.
func TestLossQuiet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "--quiet", "--lease", "6s", "job", "--", "sh", "-c", "echo >"+ready+"; exec sleep 60")
	out := start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(ready) })
	server.Cli(t, "DEL", "job")
	if got := code(t, cmd.Wait()); got != 76 || !strings.HasPrefix(out.String(), `holdfast: the lock "job" was lost (`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exit code %d, output %q", got, out)
	}
}

// TestLossIgnored lets the command end by itself.
func TestLossIgnored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "--lease", "6s", "--on-lost", "ignore", "job", "--",
		"sh", "-c", `trap "exit 1" TERM; echo >$0/ready; until test -e $0/end; do sleep 0.01; done; exit 5`, dir)
	out := &lockedText{}
	cmd.Stdout, cmd.Stderr = out, out
	must(cmd.Start())
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	server.Cli(t, "HSET", "job", "another:1", "1")
	server.Cli(t, "EVAL", "for _, f in ipairs(redis.call('HKEYS', 'job')) do if f ~= 'another:1' then redis.call('HDEL', 'job', f) end end", "0")
	before := expiryOf(t, server, "job")
	eventually(t, "renewal has ended", func() bool { return time.Now().UnixNano() > before })
	eventually(t, "it says so while the command runs", func() bool {
		return strings.Contains(out.String(), "is lost: ") && strings.Contains(out.String(), "; the command goes on")
	})
	write(t, filepath.Join(dir, "end"), "")
	if got := code(t, cmd.Wait()); got != 76 || !strings.Contains(out.String(), "exit code 5") {
		t.Errorf("exit code %d, output %q", got, out)
	}
}

// TestSuspendedAfterLoss suspends a command whose lock is lost: the run does not say that it keeps that.
func TestSuspendedAfterLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "--lease", "6s", "--grace", "1s", "job", "--",
		"sh", "-c", `trap 'kill -STOP $$' TERM; echo >`+ready+`; while :; do sleep 0.01; done`)
	out := start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(ready) })
	server.Cli(t, "DEL", "job")
	if got := code(t, cmd.Wait()); got != 76 || !strings.Contains(out.String(), "has been suspended\n") || strings.Contains(out.String(), "is kept") {
		t.Errorf("exit code %d, output %q", got, out)
	}
}

// TestSuspendedRunner suspends the runner until its lock has gone. When it goes
// on, there is no time for a grace.
func TestSuspendedRunner(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "--lease", "6s", "--grace", "2s", "job", "--", "heartbeat", dir)
	start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "alive")) })
	send(t, cmd, syscall.SIGSTOP)
	end := expiryOf(t, server, "job")
	eventually(t, "the lock has ended", func() bool { return time.Now().UnixNano() > end && server.Cli(t, "EXISTS", "job") == "0" })
	goesOn := time.Now()
	send(t, cmd, syscall.SIGCONT)
	got := code(t, cmd.Wait())
	if took := lastTime(t, filepath.Join(dir, "alive")) - goesOn.UnixNano(); got != 76 || took > int64(time.Second) {
		t.Errorf("exit code %d; the command lived for %v more", got, time.Duration(took))
	}
}

// TestKilledRunner kills the runner: the command must not go on unprotected.
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "job", "--", "sh", "-c", pidTo(pidFile)+"exec sleep 60")
	if err := cmd.Start(); err != nil { // without pipes, which the command would keep open
		t.Fatal(err)
	}
	eventually(t, "the command runs", func() bool { return exists(pidFile) })
	send(t, cmd, syscall.SIGKILL)
	_ = cmd.Wait()
	eventually(t, "the command is dead", func() bool { return dead(t, pidFile) })
}

// TestGroupKilled stops a command that ends at once, but has left a process that
// does not: it is dead before the lock is given back.
func TestGroupKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "--max-run", "3s", "job", "--",
		"sh", "-c", `sh -c 'trap "" TERM; `+pidTo(pidFile)+`while :; do sleep 0.01; done' & wait`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != 124 || !exists(pidFile) || !dead(t, pidFile) {
		t.Errorf("exit code %d, or the process lives", got)
	}
}

// pidTo is a shell command that writes the shell's number to a file.
func pidTo(file string) string {
	return "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; "
}

// dead reports whether a process has ended; who inherited it may not collect it.
func dead(t *testing.T, pidFile string) bool {
	t.Helper()
	is := state(t, pidFile)
	return is == "" || is == "Z"
}

// state is the state of a process, as ps has it, "" if there is none.
func state(t *testing.T, pidFile string) string {
	t.Helper()
	is, err := exec.Command("ps", "-o", "state=", "-p", strings.TrimSpace(read(t, pidFile))).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(is))
}

// lastTime is when a file was last changed, in ns.
func lastTime(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UnixNano()
}

func parse(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
