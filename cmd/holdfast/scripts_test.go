package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// scriptsSaid is what holdfast scripts has said.
type scriptsSaid struct {
	code           int
	stdout, stderr string
}

func runScripts(t *testing.T, url string, args ...string) scriptsSaid {
	t.Helper()
	cmd := holdfast(t, url, append([]string{"scripts"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return scriptsSaid{code(t, cmd.Run()), stdout.String(), stderr.String()}
}

// want checks the exit code, and that each text is among the lines.
func (s scriptsSaid) want(t *testing.T, code int, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(s.stdout+s.stderr, line) {
			t.Errorf("there is no %q", line)
		}
	}
	if s.code != code || t.Failed() {
		t.Errorf("exit code %d, want %d: %s%s", s.code, code, s.stdout, s.stderr)
	}
}

// scripts is how many there are.
var scripts = len(protocol.Every())

// wantLoaded checks that a server has every script.
func wantLoaded(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	args := []string{"SCRIPT", "EXISTS"}
	for _, s := range protocol.Every() {
		args = append(args, s.SHA())
	}
	for _, server := range servers {
		if got := strings.Count(server.Cli(t, args...), "1"); got != scripts {
			t.Errorf("%s has %d of %d scripts", server.Addr(), got, scripts)
		}
	}
}

// TestScriptsLoad loads the scripts into every server that may become a primary.
func TestScriptsLoad(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		url := "redis://" + server.Addr()
		runScripts(t, url, "check").want(t, 1, fmt.Sprintf("%s: it has none of the %d scripts\n", server.Addr(), scripts))
		loaded := fmt.Sprintf("%s: loaded %d scripts, of which it lacked ", server.Addr(), scripts)
		runScripts(t, url, "load").want(t, 0, loaded+fmt.Sprintln(scripts), "after a restart of a server, SCRIPT FLUSH, and for a new node or replica, load them again")
		wantLoaded(t, server)
		has := fmt.Sprintf("%s: it has all %d scripts\n", server.Addr(), scripts)
		for _, action := range []string{"load", "check"} {
			if got := runScripts(t, url, action); got.code != 0 || got.stdout != has || got.stderr != "" {
				t.Errorf("%s: %+v", action, got)
			}
		}
		server.Cli(t, "SCRIPT", "FLUSH")
		server.Cli(t, "SCRIPT", "LOAD", protocol.MutexScripts.Acquire.Source())
		runScripts(t, url, "check").want(t, 1, fmt.Sprintf("it lacks %d of %d scripts: ", scripts-1, scripts), "mutex release")
		runScripts(t, url, "load").want(t, 0, loaded+fmt.Sprintln(scripts-1))
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, 2, 3)
		primary, replicas := sentinel.Primary(t), sentinel.Replicas(t)
		url := "redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName()
		runScripts(t, url, "load").want(t, 0, primary.Addr(), replicas[0].Addr(), replicas[1].Addr())
		wantLoaded(t, append(replicas, primary)...)
		wantLoaded(t, sentinel.Failover(t))
		replicas[0].Kill()
		got := runScripts(t, url, "check", "--json")
		got.want(t, 69, "announce "+replicas[0].Addr()+", which cannot be reached from here")
		if strings.Count(got.stdout, `"loaded":true}`) != 2 {
			t.Errorf("the others are not told: %s", got.stdout)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 1)
		for _, node := range cluster.Nodes {
			node.Cli(t, "ACL", "SETUSER", "loader", "on", ">pw", "+script|load", "+script|exists", "+cluster|slots", "+cluster|nodes")
		}
		runScripts(t, "redis://loader:pw@"+strings.Join(cluster.Addrs(), ","), "load").want(t, 0, cluster.Addrs()...)
		wantLoaded(t, cluster.Nodes...)
		runScripts(t, "redis://"+cluster.Addrs()[0], "load").want(t, 69, "it is one node of a cluster, so put ?cluster=true behind the URL")
	})
	t.Run("replica", func(t *testing.T) { // by its own URL, since nobody names it
		t.Parallel()
		servers := redistest.StartReplicated(t, 1)
		runScripts(t, "redis://"+servers.Replicas[0].Addr(), "load").want(t, 0, "loaded")
		wantLoaded(t, servers.Replicas[0])
	})
}

// TestScriptsEvery loads the scripts again after SCRIPT FLUSH and after a restart, and says only what has changed.
func TestScriptsEvery(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := holdfast(t, "redis://"+server.Addr(), "scripts", "load", "--every", "100ms")
	stdout, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	lines := bufio.NewScanner(stdout)
	want := fmt.Sprintf("%s: loaded %d scripts, of which it lacked %d", server.Addr(), scripts, scripts)
	for _, lose := range []func(){func() {}, func() { server.Cli(t, "SCRIPT", "FLUSH") }, server.Restart} {
		lose()
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("got %q, want %q", lines.Text(), want)
		}
		wantLoaded(t, server)
	}
	must(cmd.Process.Signal(syscall.SIGTERM))
	if lines.Scan() {
		t.Errorf("it says more: %s", lines.Text())
	}
	if got := code(t, cmd.Wait()); got != 128+15 {
		t.Errorf("exit code %d", got)
	}
}

// TestScriptsRefused has a user who may load no scripts, and command lines that make no sense.
func TestScriptsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := func(rules ...string) string {
		server.Cli(t, append([]string{"ACL", "SETUSER", "tenant", "reset", "on", ">pw"}, rules...)...)
		return "redis://tenant:pw@" + server.Addr()
	}
	runScripts(t, url("+@all", "-script"), "load").want(t, 69, server.Addr()+" cannot be used: this takes a user with +script|exists, and +script|load to load them (NOPERM")
	runScripts(t, url("+script|exists"), "load").want(t, 69, "this takes a user with")
	runScripts(t, url("+script|exists"), "check").want(t, 1, "it has none of the")
	runScripts(t, url("+script|exists", "+script|load"), "load").want(t, 0, "loaded")
	runScripts(t, "redis://127.0.0.1:1", "load").want(t, 69, "127.0.0.1:1 cannot be used: check that it runs there")
	for says, args := range map[string][]string{
		"<action> is missing": {},
		"must be one of":      {"flush"},
		"--every is for":      {"check", "--every", "1s"},
		"an interval of 1ms":  {"load", "--every", "1ms"},
	} {
		runScripts(t, url("+@all"), args...).want(t, 64, says)
	}
	runScripts(t, "", "load").want(t, 64, "there is no Redis to use")
}

// TestScriptsList prints each script, without a Redis.
func TestScriptsList(t *testing.T) {
	t.Parallel()
	got := runScripts(t, "", "list")
	got.want(t, 0, protocol.MutexScripts.Acquire.SHA()+"  mutex acquire\n")
	if strings.Count(got.stdout, "\n") != scripts || got.stderr != "" {
		t.Errorf("%s%s", got.stdout, got.stderr)
	}
	sources := map[string]string{}
	for line := range strings.Lines(runScripts(t, "", "list", "--json").stdout) {
		var one struct {
			SHA1   string `json:"sha1"`
			Source string `json:"source"`
		}
		must(json.Unmarshal([]byte(line), &one))
		sources[one.SHA1] = one.Source
	}
	for name, s := range protocol.Every() {
		if sources[s.SHA()] != s.Source() {
			t.Errorf("the source of %s is another one", name)
		}
	}
}
