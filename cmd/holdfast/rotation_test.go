//go:build unix

package main

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestRotation has a runner that holds the lock, and one that waits for it, while the files with their credentials are replaced, after the
// server has turned to the new ones and has closed all connections. The first keeps the lock for longer than its lease, and then
// the other one gets it.
func TestRotation(t *testing.T) {
	t.Parallel()
	t.Run("password", func(t *testing.T) {
		t.Parallel()
		server, file := redistest.Start(t), t.TempDir()+"/password"
		set := func(password string) {
			server.Cli(t, "ACL", "SETUSER", "shop", "reset", "on", "~*", "&*", "+@all", ">"+password)
		}
		set("old")
		write(t, file, "old\n")
		rotates(t, "redis://shop@"+server.Addr(), []string{"--password-file", file}, func() {
			set("new")
			server.Cli(t, "CLIENT", "KILL", "USER", "shop")
			eventually(t, "the old one is refused", func() bool { return server.Cli(t, "ACL", "LOG") != "" })
			must(os.Remove(file))
			server.Cli(t, "ACL", "LOG", "RESET")
			write(t, file, "new\n")
		})
	})
	t.Run("authority", func(t *testing.T) {
		t.Parallel()
		old, next := newAuthority(t), newAuthority(t)
		server, url := localTLS(t)
		present := func(a *authority) {
			cert, key := a.signs("server", func(*x509.Certificate) {})
			control(t, server, "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key)
		}
		present(old)
		rotates(t, url, []string{"--tls-ca", old.ca()}, func() {
			present(next)
			killed := time.Now()
			control(t, server, "CLIENT", "KILL", "TYPE", "normal")
			control(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
			eventually(t, "both have tried in vain", func() bool { return time.Since(killed) > time.Second })
			replace(t, old.ca(), next.ca())
		})
	})
	t.Run("client certificate", func(t *testing.T) {
		t.Parallel()
		servers, old, next := newAuthority(t), newAuthority(t), newAuthority(t)
		same := func(*x509.Certificate) {}
		cert, key := servers.signs("server", same)
		server, url := localTLS(t)
		control(t, server, "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", old.ca(), "tls-auth-clients", "yes")
		cert, key = old.signs("client", same)
		newCert, newKey := next.signs("client", same)
		rotates(t, url, []string{"--tls-ca", servers.ca(), "--tls-cert", cert, "--tls-key", key}, func() {
			control(t, server, "CONFIG", "SET", "tls-ca-cert-file", next.ca())
			killed := time.Now()
			control(t, server, "CLIENT", "KILL", "TYPE", "normal")
			control(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
			eventually(t, "both have tried in vain", func() bool { return time.Since(killed) > time.Second })
			replace(t, cert, newCert)
			replace(t, key, newKey)
		})
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		sentinel, file := redistest.StartSentinel(t, 1, 1), t.TempDir()+"/password"
		watch, primary := sentinel.Sentinels[0], sentinel.Primary(t)
		set := func(password string) {
			watch.Cli(t, "ACL", "SETUSER", "watcher", "reset", "on", "&*", "+@all", ">"+password)
		}
		set("old")
		write(t, file, "old\n")
		url := "redis+sentinel://" + watch.Addr() + "/" + sentinel.MasterName()
		rotates(t, url, []string{"--sentinel-user", "watcher", "--sentinel-password-file", file}, func() {
			set("new")
			for _, server := range []*redistest.Server{watch, primary} {
				server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
				server.Cli(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
			eventually(t, "the old one is refused", func() bool { return watch.Cli(t, "ACL", "LOG") != "" })
			write(t, file, "new\n")
		})
	})
}

// rotates has one hold the lock, and another wait for it, while credentials change.
func rotates(t *testing.T, url string, flags []string, change func()) {
	t.Helper()
	dir := t.TempDir()
	run := append([]string{"run", "--lease", "6s", "--grace", "1s"}, flags...)
	holder := holdfast(t, url, append(run, "job", "--", "sh", "-c", "echo >$0/ready; until test -e $0/end; do sleep 0.05; done", dir)...)
	waiter := holdfast(t, url, append(run, "job", "--", "true")...)
	said, saidWaiting := &lockedText{}, &lockedText{}
	holder.Stderr, waiter.Stderr = said, saidWaiting
	must(holder.Start())
	eventually(t, "the command runs", func() bool { return exists(dir + "/ready") })
	must(waiter.Start())
	eventually(t, "the other one waits", func() bool { return strings.Contains(saidWaiting.String(), "waiting for") })
	began := time.Now()
	change()
	eventually(t, "the lease would have ended", func() bool { return time.Since(began) > 7*time.Second })
	write(t, dir+"/end", "")
	if got := code(t, holder.Wait()); got != 0 {
		t.Errorf("the holder: exit code %d: %s", got, said)
	}
	if got := code(t, waiter.Wait()); got != 0 {
		t.Errorf("the waiter: exit code %d: %s", got, saidWaiting)
	}
}

// TestSilentSentinel silences the sentinel that the runner knows, and cuts its connections to the primary: it asks another one in time.
func TestSilentSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 0, 3)
	for _, other := range sentinel.Sentinels[1:] {
		other.Stop()
	}
	dir := t.TempDir()
	url := "redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName()
	cmd := holdfast(t, url, "run", "--lease", "15s", "--grace", "5s", "job", "--", "sh", "-c", "echo >$0/ready; until test -e $0/end; do sleep 0.05; done", dir)
	out := start(t, cmd)
	eventually(t, "the command runs", func() bool { return exists(dir + "/ready") })
	for _, other := range sentinel.Sentinels[1:] {
		other.Cont()
	}
	primary := sentinel.Primary(t)
	began := time.Now()
	sentinel.Sentinels[0].Stop()
	primary.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
	primary.Cli(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually(t, "the lease would have ended", func() bool { return time.Since(began) > 16*time.Second })
	write(t, dir+"/end", "")
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("exit code %d: %s", got, out)
	}
}

// localTLS is a server with TLS that can be controlled by a socket, whatever its certificate is.
func localTLS(t *testing.T) (server *redis.Client, url string) {
	t.Helper()
	socket := t.TempDir() + "/s"
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithConfig("unixsocket "+socket))
	server = redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = server.Close() })
	return server, "rediss://" + s.Addr()
}

func control(t *testing.T, server *redis.Client, command ...any) {
	t.Helper()
	if err := server.Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// replace puts one file in the place of another.
func replace(t *testing.T, old, next string) {
	t.Helper()
	must(os.Rename(next, old))
}
