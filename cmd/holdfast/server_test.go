//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
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
		for _, flags := range []string{"", "--kind fair", "--kind permits --permits 3"} {
			t.Run(name+flags, func(t *testing.T) { testRedisDown(t, addr, wait, flags) })
		}
	}
}

func testRedisDown(t *testing.T, addr string, wait time.Duration, flags string) {
	t.Helper()
	t.Parallel()
	args := append([]string{"run", "-q", "--wait", wait.String()}, strings.Fields(flags)...)
	cmd := holdfast(t, "redis://user:s3cret@"+addr, append(args, "job", "--", "echo", "not run")...)
	began := time.Now()
	out := start(t, cmd)
	got, took := code(t, cmd.Wait()), time.Since(began)
	if got != 69 || took > wait+5*time.Second {
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
		refuses(t, holdfast(t, "redis://:wr0ng@"+server.Addr(), "run", "--wait", "5s", "job", "--", "true"), "WRONGPASS")
	})
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithTLS())
		_, ca, _ := strings.Cut(server.Cli(t, "CONFIG", "GET", "tls-ca-cert-file"), "\n")
		works(t, holdfast(t, "rediss://"+server.Addr(), "run", "--tls-ca", ca, "job", "--", "true"))
		works(t, holdfast(t, "rediss://"+server.Addr()+"?skip_verify=true", "run", "--insecure-skip-verify", "job", "--", "true"))
		refuses(t, holdfast(t, "rediss://"+server.Addr(), "run", "job", "--", "true"), "certificate")
	})
	t.Run("client certificate", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.WithTLS())
		file := func(setting string) string {
			_, path, _ := strings.Cut(server.Cli(t, "CONFIG", "GET", setting), "\n")
			return path
		}
		ca, cert, key := file("tls-ca-cert-file"), file("tls-cert-file"), file("tls-key-file")
		server.Cli(t, "CONFIG", "SET", "tls-auth-clients", "yes")
		url := "rediss://" + server.Addr()
		works(t, holdfast(t, url, "run", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "job", "--", "true"))
		cmd := holdfast(t, strings.Replace(url, "rediss", "valkeys", 1), "run", "job", "--", "true")
		cmd.Env = append(cmd.Env, "HOLDFAST_REDIS_TLS_CA="+ca, "HOLDFAST_REDIS_TLS_CERT="+cert, "HOLDFAST_REDIS_TLS_KEY="+key)
		works(t, cmd)
		refuses(t, holdfast(t, url, "run", "--wait", "1s", "--tls-ca", ca, "job", "--", "true"), "cannot be used") // TLS says why, unless the connection is reset first
	})
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		socket := t.TempDir() + "/r s" // short, since the path of a socket must be
		redistest.Start(t, redistest.WithPassword(password), redistest.WithConfig("unixsocket "+strconv.Quote(socket)))
		url := "unix://:p%40ss%2Fword%3F%23@" + strings.ReplaceAll(socket, " ", "%20")
		works(t, holdfast(t, url, "run", "job", "--", "true"))
		works(t, holdfast(t, url+"?db=3", "run", "job", "--", "true"))
		refuses(t, holdfast(t, "unix://"+socket+"x", "run", "--wait", "1s", "job", "--", "true"), "there is no such socket")
	})
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		server.Cli(t, "HSET", "job", "somebody:1", "1")
		works(t, holdfast(t, "valkey://"+server.Addr()+"/3", "run", "job", "--", "true"))
		works(t, holdfast(t, "redis://"+server.Addr()+"?db=3", "run", "job", "--", "true"))
		refuses(t, holdfast(t, "redis://"+server.Addr()+"/99", "run", "job", "--", "true"), "fewer databases")
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0)
		works(t, holdfast(t, "redis://"+strings.Join(cluster.Addrs(), ","), "run", "job", "--", "true"))
		works(t, holdfast(t, "redis://"+cluster.Addrs()[0]+"/?cluster=true", "run", "job", "--", "true"))
		refuses(t, holdfast(t, "redis://"+strings.Join(cluster.Addrs(), ",")+"/3", "run", "--wait", "5s", "job", "--", "true"),
			"this cluster has no database numbers")
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, 1, 3)
		works(t, holdfast(t, "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+sentinel.MasterName(), "run", "job", "--", "true"))
		url := "redis+sentinel://" + sentinel.Addrs()[0]
		refuses(t, holdfast(t, url+"/other", "run", "--wait", "1s", "job", "--", "true"), "the sentinels know no master of that name")
		refuses(t, holdfast(t, "redis+sentinel://"+sentinel.Primary(t).Addr()+"/m", "run", "--wait", "1s", "job", "--", "true"), "it is no sentinel")
	})
	t.Run("sentinel with its own password", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, 1, 1)
		primary := sentinel.Primary(t)
		sentinel.Sentinels[0].Cli(t, "ACL", "SETUSER", "watcher", "on", ">w4tch", "+@all")
		sentinel.Sentinels[0].Cli(t, "ACL", "SETUSER", "default", "off")
		primary.Cli(t, "ACL", "SETUSER", "worker", "on", ">w0rk", "+@all", "~*", "&*")
		url := "valkey+sentinel://worker:w0rk@" + sentinel.Addrs()[0] + "/" + sentinel.MasterName()
		file := t.TempDir() + "/password"
		write(t, file, "w4tch\n")
		works(t, holdfast(t, url, "run", "--sentinel-user", "watcher", "--sentinel-password-file", file, "job", "--", "true"))
		cmd := holdfast(t, url, "run", "job", "--", "true")
		cmd.Env = append(cmd.Env, "HOLDFAST_REDIS_SENTINEL_USER=watcher", "HOLDFAST_REDIS_SENTINEL_PASSWORD=w4tch")
		works(t, cmd)
		refuses(t, holdfast(t, url, "run", "--wait", "1s", "job", "--", "true"), "the sentinels want a password")
		write(t, file, "wr0ng\n")
		refuses(t, holdfast(t, url, "run", "--wait", "1s", "--sentinel-user", "watcher", "--sentinel-password-file", file, "job", "--", "true"),
			"password for the sentinels is wrong")
	})
}

// refuses runs a command that Redis, or the way there, has something against.
func refuses(t *testing.T, cmd *exec.Cmd, says string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if got := code(t, err); got != 69 || !strings.Contains(string(out), says) || strings.Contains(string(out), "wr0ng") {
		t.Errorf("exit code %d, without %q: %s", got, says, out)
	}
}

func works(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil || unlessWaiting(string(out), time.Since(start)) != "" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFullServer has a server that has as many connections as its maxclients allows: every command says so.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	last, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = last.Close() })
	if _, err := fmt.Fprint(last, "CONFIG SET maxclients 1\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands("--wait", "2s") {
		wantUnusable(t, "redis://"+server.Addr(), args, "as many connections as its maxclients allows, so close some, or raise it (ERR max number of clients reached")
	}
}

// TestAnnouncedAddress has a cluster and sentinels that announce an address at which nothing listens: every command says that they do, and does not
// send people to look for a fault in the URL.
func TestAnnouncedAddress(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(gone, ":")
	node := redistest.Start(t, redistest.WithConfig("cluster-enabled yes", "cluster-announce-ip 127.0.0.1", "cluster-announce-port "+port))
	node.Cli(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	watcher := redistest.StartSentinel(t, 0, 1).Sentinels[0]
	watcher.Cli(t, "SENTINEL", "MONITOR", "gone", "127.0.0.1", port, "1")
	for _, url := range []string{"redis://" + node.Addr() + "?cluster=true", "redis+sentinel://" + watcher.Addr() + "/gone"} {
		for _, args := range commands("--wait", "2s") {
			wantUnusable(t, url, args, "announce "+gone+", which cannot be reached from here")
		}
	}
}

// wantUnusable checks that a command says, perhaps over several lines, why it cannot use Redis, and does not suspect the URL.
func wantUnusable(t *testing.T, url string, args []string, says string) {
	t.Helper()
	out, err := holdfast(t, url, args...).CombinedOutput()
	said := strings.Join(strings.Fields(string(out)), " ")
	if got := code(t, err); got != 69 || !strings.Contains(said, says) || strings.Contains(said, "check that it runs there, and the Redis URL") {
		t.Errorf("%s, %s: exit code %d: %s", url, args[0], got, said)
	}
}

// commands returns the command lines that use Redis; flags are for run.
func commands(flags ...string) [][]string {
	return [][]string{append(append([]string{"run"}, flags...), "job", "--", "true"), {"ls"}, {"show", "job"}, {"unlock", "--force", "--yes", "job"}, {"doctor"}, {"scripts", "load"}}
}

// TestWrongTopology gives every command URLs that lead to a server which is not what they say: it has other locks, or old ones. None
// shows anything of it.
func TestWrongTopology(t *testing.T) {
	t.Parallel()
	alone, cluster, sentinel := redistest.Start(t), redistest.StartCluster(t, 3, 0), redistest.StartSentinel(t, 1, 1)
	master := "/" + sentinel.MasterName()
	urls := map[string]struct{ url, says string }{
		"sentinel's":           {"redis://" + sentinel.Addrs()[0], "it is a sentinel, so use redis+sentinel://"},
		"replica":              {"redis://" + sentinel.Replicas(t)[0].Addr(), "it is a replica, so name the primary"},
		"no cluster":           {"redis://" + alone.Addr() + "?cluster=true", "it is no cluster, so name one host"},
		"no sentinel":          {"redis+sentinel://" + alone.Addr() + master, "it is no sentinel"},
		"a cluster's":          {"redis+sentinel://" + cluster.Addrs()[0] + master, "it is no sentinel"},
		"cluster of a replica": {"redis://" + sentinel.Replicas(t)[0].Addr() + "?cluster=true", "it is no cluster, so name one host"},
		"cluster of sentinels": {"redis://" + sentinel.Addrs()[0] + "?cluster=true", "it is a sentinel, so use redis+sentinel://"},
	}
	for i, addr := range cluster.Addrs() {
		urls[fmt.Sprint("node ", i)] = struct{ url, says string }{"redis://" + addr, "it is one node of a cluster, so put ?cluster=true behind the URL"}
	}
	cluster.NodeFor(t, "job").Cli(t, "HSET", "job", javaOwner, "1")
	for what, c := range urls {
		for _, args := range [][]string{
			{"run", "--wait", "1s", "job", "--", "true"},
			{"ls"},
			{"ls", "job"},
			{"ls", "--all", "--json"},
			{"show", "job"},
			{"wait", "--wait", "0s", "job"},
			{"unlock", "--force", "--yes", "job"},
			{"bench", "--duration", "100ms"},
			{"demo", "--plain", "mutex"},
		} {
			t.Run(what+"/"+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				var out, said bytes.Buffer
				cmd := holdfast(t, c.url, args...)
				cmd.Stdout, cmd.Stderr = &out, &said
				began := time.Now()
				if got := code(t, cmd.Run()); got != 69 && args[0] != "demo" || got == 0 || !strings.Contains(said.String(), c.says) || out.Len() > 0 && args[0] != "demo" {
					t.Errorf("exit code %d after %v: %s%s", got, time.Since(began), &out, &said)
				}
			})
		}
		t.Run(what+"/doctor", func(t *testing.T) {
			t.Parallel()
			out, err := holdfast(t, c.url, "doctor").CombinedOutput()
			if got := code(t, err); got != 78 && got != 69 || strings.Contains(string(out), "ok    locks") {
				t.Errorf("exit code %d: %s", got, out)
			}
		})
		t.Run(what+"/dashboard", func(t *testing.T) {
			t.Parallel()
			said := &lockedText{}
			cmd := holdfast(t, c.url, "dashboard", "--listen", "127.0.0.1:0", "--interval", "100ms")
			cmd.Stderr = said
			must(cmd.Start())
			eventually(t, "it says so", func() bool { return strings.Contains(said.String(), c.says) })
			_, text := getOf(t, regexp.MustCompile(`http://\S+/`).FindString(said.String())+"api/locks")
			if !strings.Contains(text, c.says) || strings.Contains(text, "job") {
				t.Errorf("the page says %s", text)
			}
			send(t, cmd, syscall.SIGTERM)
			_ = cmd.Wait()
		})
	}
}
