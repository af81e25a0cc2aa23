//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var forwarded = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
}

// TestSignalsWhileRunning sends each signal to the runner and has the command
// tell which one it got. The lock is free afterwards.
func TestSignalsWhileRunning(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, sig := range forwarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := filepath.Join(t.TempDir(), "ready")
			script := fmt.Sprintf(`trap 'echo got %s; exit 9' %s; echo >%s; while :; do sleep 0.01; done`, name, name, ready)
			cmd := holdfast(t, "redis://"+server.Addr(), "run", "job-"+name, "--", "sh", "-c", script)
			out := start(t, cmd)
			eventually(t, "the command runs", func() bool { return exists(ready) })
			send(t, cmd, sig)
			// The shell may say on its own how its sleep ended.
			if got := code(t, cmd.Wait()); got != 9 || !strings.HasSuffix(out.String(), "got "+name+"\n") {
				t.Errorf("exit code %d, output %q", got, out)
			}
			if left := server.Cli(t, "EXISTS", "job-"+name); left != "0" {
				t.Errorf("the lock was not given back")
			}
		})
	}
}

// TestSignalReachesGroup sends a signal that the command and the commands that
// it has started must all get.
func TestSignalReachesGroup(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	script := `sh -c 'trap "echo grandchild >>$0/got; exit" TERM; echo >$0/ready; while :; do sleep 0.01; done' ` + dir + ` & wait; wait`
	cmd := holdfast(t, "redis://"+server.Addr(), "run", "job", "--", "sh", "-c", "trap : TERM; "+script)
	start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	send(t, cmd, syscall.SIGTERM)
	if got := code(t, cmd.Wait()); got != 0 || !exists(filepath.Join(dir, "got")) {
		t.Errorf("exit code %d, or the grandchild got nothing", got)
	}
}

// TestSignalsWhileWaiting sends each signal to a runner that waits. It ends with
// 128+n, unless the signal is one that nobody ends by, and leaves nothing.
func TestSignalsWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, sig := range forwarded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.Cli(t, "HSET", "job", "somebody:1", "1")
			cmd := holdfast(t, "redis://"+server.Addr(), "run", "-q", "job", "--", "echo", "not run")
			out := start(t, cmd)
			listens := func() bool {
				return strings.HasSuffix(server.Cli(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{job}"), "\n1")
			}
			eventually(t, "the runner waits", listens)
			send(t, cmd, sig)
			want := 128 + int(sig)
			if sig == syscall.SIGWINCH {
				// Only a signal that comes after it can show that it was survived.
				send(t, cmd, syscall.SIGTERM)
				want = 128 + int(syscall.SIGTERM)
			}
			if got := code(t, cmd.Wait()); got != want || out.Len() > 0 {
				t.Errorf("exit code %d, want %d; output %q", got, want, out)
			}
			if holders := server.Cli(t, "HKEYS", "job"); holders != "somebody:1" {
				t.Errorf("the lock is held by %q", holders)
			}
			eventually(t, "nobody listens", func() bool { return !listens() })
		})
	}
}

// TestInterruptedKinds ends runners that wait for other kinds of locks: nothing
// of them is left, so the next one is not kept waiting.
func TestInterruptedKinds(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		held  []string
		waits string
	}{
		"fair":  {[]string{"HSET job somebody:1 1"}, "LLEN redisson_lock_queue:{job}"},
		"read":  {[]string{"HSET job mode write somebody:1:write 1"}, "PUBSUB NUMSUB redisson_rwlock:{job}"},
		"write": {[]string{"HSET job mode read somebody:1 1", "SET {job}:somebody:1:rwlock_timeout:1 1"}, "EXISTS holdfast_waitlist:{job}"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			for _, command := range c.held {
				server.Cli(t, strings.Fields(command)...)
			}
			before := server.Cli(t, "DBSIZE")
			waits := func() bool { return strings.HasSuffix(server.Cli(t, strings.Fields(c.waits)...), "1") }
			cmd := holdfast(t, "redis://"+server.Addr(), "run", "-q", "--kind", kind, "job", "--", "echo", "not run")
			out := start(t, cmd)
			eventually(t, "the runner waits", waits)
			send(t, cmd, syscall.SIGTERM)
			if got := code(t, cmd.Wait()); got != 143 || out.Len() > 0 {
				t.Errorf("exit code %d; output %q", got, out)
			}
			eventually(t, "nobody waits", func() bool { return !waits() })
			if after := server.Cli(t, "DBSIZE"); after != before {
				t.Errorf("%s keys, and %s before: %s", after, before, server.Cli(t, "KEYS", "*"))
			}
		})
	}
}

// TestIgnoredSignal starts the runner as nohup does: the command is not to be
// ended by the signal either.
func TestIgnoredSignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	cmd := holdfast(t, "redis://"+server.Addr())
	cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
	cmd.Path = "/bin/sh"
	cmd.Args = []string{"sh", "-c", `trap "" HUP; exec holdfast run job -- sh -c 'echo >$0/ready; until test -e $0/end; do sleep 0.01; done; echo lives' ` + dir}
	out := start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(filepath.Join(dir, "ready")) })
	send(t, cmd, syscall.SIGHUP)
	write(t, filepath.Join(dir, "end"), "")
	if got := code(t, cmd.Wait()); got != 0 || out.String() != "lives\n" {
		t.Errorf("exit code %d, output %q", got, out)
	}
}

// TestSignalsWhileSuspended sends the signals that end a run whose command is suspended, or a process that the command has
// started: they do not stay pending, with the lock renewed.
func TestSignalsWhileSuspended(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"INT", "TERM", "HUP", "QUIT"} {
		for what, script := range map[string]string{
			"the command":            pidTo("$0/pid") + "kill -STOP $$",
			"what it has started":    "trap 'wait; trap - " + name + "; kill -" + name + " $$' " + name + "; sh -c '" + pidTo("$0/pid") + "kill -STOP $$' $0 & wait",
			"both":                   "sh -c '" + pidTo("$0/pid") + "kill -STOP 0' $0 & wait",
			"ignored from the start": pidTo("$0/pid") + "kill -STOP $$",
		} {
			// The shell of a script has what it puts into the background ignore SIGINT and SIGQUIT.
			ignores := name == "INT" || name == "QUIT"
			if what == "what it has started" && ignores || what == "ignored from the start" && !ignores {
				continue
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				dir := t.TempDir()
				ignored := ""
				if what == "ignored from the start" {
					ignored = "trap '' " + name + "; "
				}
				cmd := inShell(t, server, ignored+"exec holdfast run job -- sh -c '"+strings.ReplaceAll(script, "'", `'\''`)+"' "+dir)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "it is suspended", func() bool { return exists(dir+"/pid") && state(t, dir+"/pid") == "T" })
				send(t, cmd, forwarded[name])
				if got := code(t, cmd.Wait()); got != 128+int(forwarded[name]) {
					t.Errorf("exit code %d", got)
				}
				eventually(t, "nothing runs any more", func() bool { return dead(t, dir+"/pid") })
				wantNoKeys(t, server)
			})
		}
	}
}

// start starts a command whose output is collected.
func start(t *testing.T, cmd *exec.Cmd) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func send(t *testing.T, cmd *exec.Cmd, sig os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}
