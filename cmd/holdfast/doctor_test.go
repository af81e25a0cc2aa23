//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// examined is what a look at a server has brought.
type examined struct {
	code           int
	stdout, stderr string
}

func examine(t *testing.T, url string, args ...string) examined {
	t.Helper()
	cmd := holdfast(t, url, append([]string{"doctor"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	got := examined{code: code(t, cmd.Run()), stdout: stdout.String(), stderr: stderr.String()}
	if strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("a credential is shown: %s%s", got.stdout, got.stderr)
	}
	return got
}

// TestDoctorCodes has the exit code for each of what can be found.
func TestDoctorCodes(t *testing.T) {
	t.Parallel()
	healthy := redistest.Start(t, redistest.WithAppendOnly(), redistest.WithPassword("s3cret"))
	forgets := redistest.Start(t, redistest.WithPassword("s3cret"))
	evicts := redistest.Start(t, redistest.WithPassword("s3cret"), redistest.WithConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru"))
	url := func(s *redistest.Server) string { return "redis://:s3cret@" + s.Addr() }
	for name, c := range map[string]struct {
		url  string
		args []string
		code int
		says string
	}{
		"healthy":          {url(healthy), nil, 0, "\n0 failures, "},
		"a warning":        {url(forgets), nil, 0, "\nwarn  persistence: nothing is kept on disk"},
		"a strict warning": {url(forgets), []string{"--strict"}, 78, "\nwarn  persistence: "},
		"a failure":        {url(evicts), nil, 78, "\nFAIL  eviction: allkeys-lru evicts locks"},
		"one kind":         {url(forgets), []string{"--kind", "fair,fair-fenced"}, 0, "\nok    locks: locked and unlocked: fair, fair-fenced\n"},
		"two flags":        {url(forgets), []string{"--kind", "fair", "--kind", "latch"}, 0, "\nok    locks: locked and unlocked: fair, latch\n"},
		"verbose":          {url(healthy), []string{"-v"}, 0, "\nok    memory: "},
		"wrong password":   {"redis://:s3crets3cret@" + healthy.Addr(), nil, 69, "\nFAIL  reachable: "},
		"nobody there":     {"redis://:s3cret@127.0.0.1:1", nil, 69, "\nFAIL  reachable: 127.0.0.1:1 cannot be used: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := examine(t, c.url, c.args...)
			if got.code != c.code || !strings.Contains(got.stdout, c.says) || got.stderr != "" {
				t.Errorf("exit code %d, without %q: %s%s", got.code, c.says, got.stdout, got.stderr)
			}
			for line := range strings.Lines(got.stdout) {
				if long := len(line) > 80; long && !strings.HasPrefix(line, "ok ") || strings.Contains(line, "\x1b") {
					t.Errorf("not plain, or too long: %q", line)
				}
			}
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"kind":    {[]string{"--kind", "spin"}, "--kind must be one of"},
		"timeout": {[]string{"--timeout", "1ms"}, "--timeout is from 100ms to 10m"},
		"prefix":  {[]string{"--prefix", "a}b"}, "--prefix cannot begin the name of a lock"},
		"name":    {[]string{"name"}, "unexpected argument name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := examine(t, "redis://:s3cret@127.0.0.1:1", c.args...)
			if got.code != 64 || got.stdout != "" || !strings.Contains(got.stderr, c.says) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}

// TestDoctorJSON reads each line.
func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	got := examine(t, "redis://"+server.Addr(), "--json")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	lines := bufio.NewScanner(strings.NewReader(got.stdout))
	severities := map[string]string{}
	for lines.Scan() {
		var f struct {
			Check    string   `json:"check"`
			Severity string   `json:"severity"`
			Where    []string `json:"where"`
			Found    string   `json:"found"`
			Do       string   `json:"do"`
		}
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		severities[f.Check] = f.Severity
		if f.Found == "" || (f.Severity == "ok") != (f.Do == "") {
			t.Errorf("%+v", f)
		}
	}
	for check, want := range map[string]string{"reachable": "ok", "eviction": "ok", "persistence": "warning", "rights": "ok", "locks": "ok"} {
		if severities[check] != want {
			t.Errorf("%s is %q, want %q", check, severities[check], want)
		}
	}
	wantNoKeys(t, server)
}

// colours are what a terminal does not show.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestDoctorOnTerminal fits terminals of two sizes, with and without colours.
func TestDoctorOnTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru"))
	for name, c := range map[string]struct {
		size   pty.Winsize
		env    []string
		colour bool
	}{
		"80x24":    {pty.Winsize{Cols: 80, Rows: 24}, []string{"TERM=xterm-256color", "NO_COLOR="}, true},
		"44x30":    {pty.Winsize{Cols: 44, Rows: 30}, []string{"TERM=xterm-256color", "NO_COLOR="}, true},
		"NO_COLOR": {pty.Winsize{Cols: 44, Rows: 30}, []string{"TERM=xterm-256color", "NO_COLOR=1"}, false},
		"dumb":     {pty.Winsize{Cols: 80, Rows: 24}, []string{"TERM=dumb", "NO_COLOR="}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := holdfast(t, "redis://"+server.Addr(), "doctor")
			cmd.Env = append(cmd.Env, c.env...)
			screen := onScreen(t, cmd, &c.size)
			if got := strings.Contains(screen, "\x1b["); got != c.colour {
				t.Errorf("colours: %v", got)
			}
			if !strings.Contains(colours.ReplaceAllString(screen, ""), "FAIL  eviction: ") {
				t.Errorf("it shows\n%s", screen)
			}
			for line := range strings.Lines(screen) {
				if lipgloss.Width(strings.TrimRight(line, "\r\n")) >= int(c.size.Cols) {
					t.Errorf("too wide: %q", line)
				}
			}
		})
	}
}

// onScreen is what a command that fails with 78 writes to a terminal of a size.
func onScreen(t *testing.T, cmd *exec.Cmd, size *pty.Winsize) string {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, size)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(tty) // ends with an error when the terminal goes
	if got := code(t, cmd.Wait()); got != 78 {
		t.Errorf("exit code %d", got)
	}
	return out.String()
}

// TestDoctorInterrupted ends at a signal, with a server that does not answer.
func TestDoctorInterrupted(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.Stop()
			cmd := holdfast(t, "redis://"+server.Addr(), "doctor", "--timeout", "1m")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "Redis: ") {
				t.Errorf("it begins with %q, %v", line, err)
			}
			send(t, cmd, sig)
			if got := code(t, cmd.Wait()); got != 128+int(sig) {
				t.Errorf("exit code %d", got)
			}
			server.Cont()
			wantNoKeys(t, server)
		})
	}
}
