//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var addressSaid = regexp.MustCompile(`(?m)^holdfast: the dashboard of Redis \(127\.0\.0\.1:[0-9]+\) is at (http://127\.0\.0\.1:[0-9]+/)\n`)

// getOf is what a dashboard answers.
func getOf(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: patience}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// aDashboard is one that runs.
type aDashboard struct {
	*exec.Cmd

	said *lockedText
	at   string // the address of its page
}

// serveDashboard starts one, and returns when it has said where it is.
func serveDashboard(t *testing.T, cmd *exec.Cmd) aDashboard {
	t.Helper()
	d := aDashboard{cmd, &lockedText{}, ""}
	cmd.Stdout, cmd.Stderr = d.said, d.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says where it is", func() bool { return addressSaid.MatchString(d.said.String()) })
	d.at = addressSaid.FindStringSubmatch(d.said.String())[1]
	return d
}

// ends stops it, and returns its exit code.
func (d aDashboard) ends(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	send(t, d.Cmd, sig)
	return code(t, d.Wait())
}

// TestDashboard serves the page until a signal comes, and nobody else can have its address meanwhile.
func TestDashboard(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Cli(t, "HSET", "job", javaOwner, "1")
	url := "redis://" + server.Addr()
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		d := serveDashboard(t, holdfast(t, url, "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms", "j*"))
		if status, text := getOf(t, d.at); status != http.StatusOK || !strings.Contains(text, "<title>holdfast</title>") {
			t.Errorf("%d %s", status, text)
		}
		eventually(t, "it shows the lock", func() bool {
			status, text := getOf(t, d.at+"api/locks")
			return status == http.StatusOK && strings.Contains(text, javaOwner) && strings.Contains(text, `"pattern":"j*"`)
		})
		other := holdfast(t, url, "dashboard", "--listen", strings.TrimSuffix(strings.TrimPrefix(d.at, "http://"), "/"))
		out, err := other.CombinedOutput()
		text := string(out)
		if got := code(t, err); got != 1 || !strings.Contains(text, "in use") ||
			!strings.HasPrefix(text, "holdfast: the page cannot be served, so --listen another address: ") {
			t.Errorf("exit code %d: %s", got, text)
		}
		if got := d.ends(t, sig); got != want || strings.Count(d.said.String(), "\n") != 1 {
			t.Errorf("exit code %d, want %d: %s", got, want, d.said)
		}
	}
}

// TestDashboardWithoutRedis serves the page, which says that Redis is away, and since when it is back.
func TestDashboardWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	d := serveDashboard(t, holdfast(t, "redis://"+server.Addr(), "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms"))
	answers := func(parts ...string) {
		t.Helper()
		status, text := getOf(t, d.at+"api/locks")
		for _, part := range parts {
			if status != http.StatusOK || !strings.Contains(text, part) {
				t.Errorf("%d %s", status, text)
			}
		}
	}
	eventually(t, "it says that Redis is away", func() bool { return strings.Contains(d.said.String(), "cannot be used: check that it runs there") })
	answers(`"away":"check that it runs there`, `"age":-1`)
	server.Restart()
	eventually(t, "it says that Redis is back", func() bool { return strings.Contains(d.said.String(), "answers again, after ") })
	answers(`"away":""`)
	if got := d.ends(t, syscall.SIGTERM); got != 143 {
		t.Errorf("exit code %d: %s", got, d.said)
	}
}

// TestDashboardToken reads the token from a file or the environment, and tells nobody.
func TestDashboardToken(t *testing.T) {
	t.Parallel()
	const token = "correct-horse-battery"
	server := redistest.Start(t)
	file := t.TempDir() + "/token"
	write(t, file, token+"\n")
	exposed := t.TempDir() + "/token"
	write(t, exposed, token+"\n")
	if err := os.Chmod(exposed, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--token-file", file}, {"--token-file", exposed}} {
		cmd := holdfast(t, "redis://"+server.Addr(), append([]string{"dashboard", "--listen", "127.0.0.1:0"}, args...)...)
		if args == nil {
			cmd.Env = append(cmd.Env, "HOLDFAST_DASHBOARD_TOKEN="+token)
		}
		d := serveDashboard(t, cmd)
		if warned := strings.Contains(d.said.String(), "other users may read the token file "+exposed); warned != slices.Contains(args, exposed) {
			t.Errorf("%v: %s", args, d.said)
		}
		r, err := http.NewRequest(http.MethodGet, d.at+"metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		for given, want := range map[string]int{"": http.StatusUnauthorized, token[1:]: http.StatusUnauthorized, token: http.StatusOK} {
			r.Header.Set("Authorization", "Bearer "+given)
			answer, err := (&http.Client{Timeout: patience}).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%v: %q: %d, want %d", args, given, answer.StatusCode, want)
			}
		}
		if got := d.ends(t, syscall.SIGINT); got != 130 || strings.Contains(d.said.String(), token) {
			t.Errorf("exit code %d: %s", got, d.said)
		}
	}
}
