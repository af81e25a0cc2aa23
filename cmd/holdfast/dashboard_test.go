//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

var addressSaid = regexp.MustCompile(`^holdfast: the dashboard of Redis \(127\.0\.0\.1:[0-9]+\) is at (http://127\.0\.0\.1:[0-9]+/)\n`)

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

// TestDashboard serves the page until a signal comes, and nobody else can have its address meanwhile.
func TestDashboard(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Cli(t, "HSET", "job", javaOwner, "1")
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		out := &lockedText{}
		cmd := holdfast(t, "redis://"+server.Addr(), "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms", "j*")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it says where it is", func() bool { return addressSaid.MatchString(out.String()) })
		url := addressSaid.FindStringSubmatch(out.String())[1]
		if status, text := getOf(t, url); status != http.StatusOK || !strings.Contains(text, "<title>holdfast</title>") {
			t.Errorf("%d %s", status, text)
		}
		eventually(t, "it shows the lock", func() bool {
			status, text := getOf(t, url+"api/locks")
			return status == http.StatusOK && strings.Contains(text, javaOwner) && strings.Contains(text, `"pattern":"j*"`)
		})
		other := holdfast(t, "redis://"+server.Addr(), "dashboard", "--listen", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
		text, err := other.CombinedOutput()
		if got := code(t, err); got != 1 || !strings.HasPrefix(string(text), "holdfast: the page cannot be served, so --listen another address: ") || !strings.Contains(string(text), "in use") {
			t.Errorf("exit code %d: %s", got, text)
		}
		send(t, cmd, sig)
		if got := code(t, cmd.Wait()); got != want || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("exit code %d, want %d: %s", got, want, out)
		}
	}
}

// TestDashboardWithoutRedis serves the page, which says that Redis is away, and since when it is back.
func TestDashboardWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	out := &lockedText{}
	cmd := holdfast(t, "redis://"+server.Addr(), "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms")
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that Redis is away", func() bool { return strings.Contains(out.String(), "cannot be used: check that it runs there") })
	url := addressSaid.FindStringSubmatch(out.String())[1]
	if status, text := getOf(t, url+"api/locks"); status != http.StatusOK || !strings.Contains(text, `"away":"check that it runs there`) || !strings.Contains(text, `"age":-1`) {
		t.Errorf("%d %s", status, text)
	}
	server.Restart()
	eventually(t, "it says that Redis is back", func() bool { return strings.Contains(out.String(), "answers again, after ") })
	if status, text := getOf(t, url+"api/locks"); status != http.StatusOK || !strings.Contains(text, `"away":""`) {
		t.Errorf("%d %s", status, text)
	}
	send(t, cmd, syscall.SIGTERM)
	if got := code(t, cmd.Wait()); got != 143 {
		t.Errorf("exit code %d: %s", got, out)
	}
}

// TestDashboardToken reads the token from a file or the environment, and tells nobody.
func TestDashboardToken(t *testing.T) {
	t.Parallel()
	const token = "correct-horse-battery"
	server := redistest.Start(t)
	file := t.TempDir() + "/token"
	write(t, file, token+"\n")
	for _, args := range [][]string{nil, {"--token-file", file}} {
		out := &lockedText{}
		cmd := holdfast(t, "redis://"+server.Addr(), append([]string{"dashboard", "--listen", "127.0.0.1:0"}, args...)...)
		cmd.Stdout, cmd.Stderr = out, out
		if args == nil {
			cmd.Env = append(cmd.Env, "HOLDFAST_DASHBOARD_TOKEN="+token)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it says where it is", func() bool { return addressSaid.MatchString(out.String()) })
		url := addressSaid.FindStringSubmatch(out.String())[1]
		if status, _ := getOf(t, url+"api/locks?token="+token); status != http.StatusUnauthorized {
			t.Errorf("%v: %d", args, status)
		}
		r, err := http.NewRequest(http.MethodPost, url+"api/sign-in", strings.NewReader(`{"token":"`+token+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", strings.TrimSuffix(url, "/"))
		answer, err := (&http.Client{Timeout: patience}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 1 {
			t.Errorf("%v: %d", args, answer.StatusCode)
		}
		send(t, cmd, os.Interrupt)
		if got := code(t, cmd.Wait()); got != 130 || strings.Contains(out.String(), token) {
			t.Errorf("exit code %d: %s", got, out)
		}
	}
}
