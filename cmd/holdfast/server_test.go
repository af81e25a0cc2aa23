package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestRedisDown has no server, or one that never answers: 69 within the wait,
// and one sentence.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	const wait = 3 * time.Second
	for name, addr := range map[string]string{"silent": silent.Addr().String(), "closed": closed.Addr().String()} {
		for _, flags := range []string{"", "--kind fair", "--kind semaphore --permits 3"} {
			t.Run(name+flags, func(t *testing.T) { testRedisDown(t, addr, wait, flags) })
		}
	}
}

func testRedisDown(t *testing.T, addr string, wait time.Duration, flags string) {
	t.Helper()
	t.Parallel()
	args := append([]string{"run", "--wait", wait.String()}, strings.Fields(flags)...)
	cmd := holdfast(t, "redis://user:s3cret@"+addr, append(args, "job", "--", "echo", "not run")...)
	began := time.Now()
	out := start(t, cmd)
	got, took := code(t, cmd.Wait()), time.Since(began)
	if got != 69 || took > wait+2*time.Second {
		t.Errorf("exit code %d after %v", got, took)
	}
	said := out.String()
	if !strings.HasPrefix(said, "holdfast: ") || strings.Count(said, "\n") != 1 || strings.Contains(said, "s3cret") {
		t.Errorf("not one sentence without a credential: %q", said)
	}
}

// TestTopologies runs a command by way of each kind of URL.
func TestTopologies(t *testing.T) {
	t.Parallel()
	const password = "p@ss/word?#"
	t.Run("password", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithPassword(password))
		file := t.TempDir() + "/password"
		write(t, file, password+"\r\n")
		url := "redis://" + server.Addr()
		works(t, holdfast(t, "redis://:p%40ss%2Fword%3F%23@"+server.Addr(), "run", "job", "--", "true"))
		works(t, holdfast(t, "redis://:wrong@"+server.Addr(), "run", "--password-file", file, "job", "--", "true"))
		cmd := holdfast(t, url, "run", "job", "--", "true")
		cmd.Env = append(cmd.Env, "HOLDFAST_REDIS_PASSWORD="+password)
		works(t, cmd)
		out, err := holdfast(t, "redis://:wr0ng@"+server.Addr(), "run", "--wait", "5s", "job", "--", "true").CombinedOutput()
		if got := code(t, err); got != 69 || !strings.Contains(string(out), "WRONGPASS") || strings.Contains(string(out), "wr0ng") {
			t.Errorf("exit code %d: %s", got, out)
		}
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithTLS())
		_, ca, _ := strings.Cut(server.Cli(t, "CONFIG", "GET", "tls-ca-cert-file"), "\n")
		works(t, holdfast(t, "rediss://"+server.Addr(), "run", "--tls-ca", ca, "job", "--", "true"))
		works(t, holdfast(t, "rediss://"+server.Addr()+"?skip_verify=true", "run", "--insecure-skip-verify", "job", "--", "true"))
		out, err := holdfast(t, "rediss://"+server.Addr(), "run", "job", "--", "true").CombinedOutput()
		if got := code(t, err); got != 69 || !strings.Contains(string(out), "certificate") {
			t.Errorf("exit code %d: %s", got, out)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0)
		works(t, holdfast(t, "redis://"+strings.Join(cluster.Addrs(), ","), "run", "job", "--", "true"))
		works(t, holdfast(t, "redis://"+cluster.Addrs()[0]+"/?cluster=true", "run", "job", "--", "true"))
		refused := 0
		for _, addr := range cluster.Addrs() { // one of them has the lock
			out, err := holdfast(t, "redis://"+addr, "run", "--wait", "1s", "job", "--", "true").CombinedOutput()
			if code(t, err) == 69 && strings.Contains(string(out), "put ?cluster=true behind the URL") {
				refused++
			}
		}
		if refused != len(cluster.Addrs())-1 {
			t.Errorf("%d nodes of %d say that they are part of a cluster", refused, len(cluster.Addrs()))
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, 1, 3)
		works(t, holdfast(t, "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+sentinel.MasterName(), "run", "job", "--", "true"))
	})
}

func works(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
