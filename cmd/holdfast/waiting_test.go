//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestWaiting has three runs wait: who is not quiet says once who holds the lock, after a
// second. Programs are told, too.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		held  []string
		says  string
		event string
	}{
		"mutex": {[]string{"HSET job somebody:1 1", "PEXPIRE job 1000000"}, `the lock "job": it is held by somebody:1, 16m`, `{"owner":"somebody:1","ttl_ms":9`},
		"read":  {[]string{"HSET job mode write somebody:1:write 1"}, `the lock "job": it is held by somebody:1, without an end`, `"mode":"write","ttl_ms":-1`},
		"permits": {
			[]string{"SET job 0", "ZADD {job}:timeout 99999999999999 0123456789abcdef", "ZADD {job}:timeout 99999999999999 fedcba9876543210"},
			`a permit of the semaphore "job": 2 of 2 are held, one for `, `{"permit":"30313233`,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			for _, command := range c.held {
				server.Cli(t, strings.Fields(command)...)
			}
			runner := func(flag string) (*exec.Cmd, string) {
				cmd := holdfast(t, "redis://"+server.Addr(), "run", flag, "--kind", kind, "job", "--", "true")
				file := filepath.Join(t.TempDir(), "said")
				out, err := os.Create(file)
				if err != nil {
					t.Fatal(err)
				}
				cmd.Stderr = out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				_ = out.Close() // it has it
				return cmd, file
			}
			quiet, nothing := runner("-q")
			eventually(t, "the quiet one waits", func() bool {
				return strings.HasSuffix(server.Cli(t, "PUBSUB", "NUMSUB", channels[kind]), "\n1")
			})
			loud, said := runner("--kind=" + kind)
			machine, told := runner("--json-status=2")
			for _, file := range []string{said, told} {
				eventually(t, "it says for whom it waits", func() bool { return strings.Contains(read(t, file), c.says) })
			}
			eventually(t, "programs are told", func() bool { return strings.Contains(read(t, told), c.event) })
			for _, cmd := range []*exec.Cmd{quiet, loud, machine} {
				send(t, cmd, os.Interrupt)
				if got := code(t, cmd.Wait()); got != 130 {
					t.Errorf("exit code %d", got)
				}
			}
			if text := read(t, nothing); text != "" {
				t.Errorf("the quiet one says %q", text)
			}
			if text := read(t, said); !strings.HasPrefix(text, "holdfast: waiting for "+c.says) || strings.Count(text, "\n") != 1 {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// channels are where releases are announced.
var channels = map[string]string{"mutex": "redisson_lock__channel:{job}", "read": "redisson_rwlock:{job}", "permits": "redisson_sc:{job}"}

// TestStatus reads what happens from a pipe that the command does not inherit.
func TestStatus(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"command": {[]string{"--fenced", "job", "--", "sh", "-c", "test -e /dev/fd/3 && exit 4; exit 3"}, 3, "acquired started exited=3 done=3"},
		"refused": {[]string{"--try", "held", "--", "true"}, 75, "done=75"},
		"missing": {[]string{"job2", "--", "no-such-command"}, 127, "done=127"},
		"lost":    {[]string{"lost", "--", "sh", "-c", "redis-cli -p " + port(server) + " DEL lost >/dev/null; sleep 60"}, 76, "acquired started lost exited=143 done=76"},
		"limit":   {[]string{"--max-run", "100ms", "job3", "--", "sleep", "60"}, 124, "acquired started exited=143 done=124"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server.Cli(t, "HSET", "held", "somebody:1", "1")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := holdfast(t, "redis://"+server.Addr(), append([]string{"run", "--json-status", "3"}, c.args...)...)
			cmd.ExtraFiles = []*os.File{w}
			start(t, cmd)
			_ = w.Close()
			var events []string
			for lines := bufio.NewScanner(r); lines.Scan(); {
				var line struct {
					Event    string       `json:"event"`
					Name     string       `json:"name"`
					Kind     string       `json:"kind"`
					Owner    string       `json:"owner"`
					Error    string       `json:"error"`
					Token    int64        `json:"token"`
					ExitCode *json.Number `json:"exit_code"`
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Name == "" || line.Kind != "mutex" {
					t.Fatalf("%v: %s", err, lines.Bytes())
				}
				switch {
				case line.Event == "waiting": // on a machine with other work
					continue
				case line.Event == "acquired" && (line.Owner == "" || name == "command" && line.Token == 0),
					line.Event == "done" && (line.Error == "") != (name == "command"):
					t.Errorf("incomplete: %s", lines.Bytes())
				case line.ExitCode != nil:
					line.Event += "=" + line.ExitCode.String()
				}
				events = append(events, line.Event)
			}
			if got := code(t, cmd.Wait()); got != c.code || strings.Join(events, " ") != c.want {
				t.Errorf("exit code %d, %v; want %d, %s", got, events, c.code, c.want)
			}
		})
	}
}

// port is the number that redis-cli takes.
func port(server *redistest.Server) string {
	_, number, _ := strings.Cut(server.Addr(), ":")
	return number
}

// TestNobodyReads has a status that nobody reads any more, and then both that and a standard
// error that take no more: the command runs, is stopped, and the lock is given back.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	t.Run("closed", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		cmd := holdfast(t, "redis://"+server.Addr(), "run", "--json-status=3", "job", "--", "sh", "-c", "exit 3")
		cmd.ExtraFiles = []*os.File{w}
		out := start(t, cmd)
		_ = w.Close()
		if got := code(t, cmd.Wait()); got != 3 || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "the status cannot be written") {
			t.Errorf("exit code %d, %q", got, out)
		}
	})
	t.Run("full", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		filler := exec.Command("sh", "-c", "dd if=/dev/zero bs=1 oflag=nonblock count=1000000 2>/dev/null; exit 0")
		filler.Stdout = w
		if err := filler.Run(); err != nil {
			t.Fatal(err)
		}
		cmd := holdfast(t, "redis://"+server.Addr(), "run", "-v", "--max-run", "3s", "--json-status=3", "full", "--", "sh", "-c",
			"redis-cli -p "+port(server)+" SET ran 1 >/dev/null; exec sleep 60")
		cmd.ExtraFiles, cmd.Stderr = []*os.File{w}, w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		eventually(t, "the command has run", func() bool { return server.Cli(t, "EXISTS", "ran") == "1" })
		eventually(t, "the lock is given back", func() bool { return server.Cli(t, "EXISTS", "full") == "0" })
		_, _ = io.Copy(io.Discard, r) // until it ends
		if got := code(t, cmd.Wait()); got != 124 {
			t.Errorf("exit code %d", got)
		}
	})
}
