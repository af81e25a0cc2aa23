package test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Faults of the network between real clients and a real server.

// throughProxy returns both adapters behind proxies of their own, with the
// clients' default settings.
func throughProxy(t *testing.T, s *redistest.Server) map[*place]*redistest.Proxy {
	t.Helper()
	a, b := redistest.NewProxy(t, s.Addr()), redistest.NewProxy(t, s.Addr())
	return map[*place]*redistest.Proxy{
		goRedis("proxy", redis.UniversalOptions{Addrs: []string{a.Addr()}}, cli(s)):       a,
		rueidisAt("proxy", rueidis.ClientOption{InitAddress: []string{b.Addr()}}, cli(s)): b,
	}
}

// sends matches requests that run a script.
func sends(name string) func([]byte) bool {
	sha := map[string]string{
		"acquire": script.Mutex.Acquire.SHA(), "release": script.Mutex.Release.SHA(), "renew": script.Mutex.Renew.SHA(),
	}[name]
	return func(request []byte) bool {
		args := redistest.Args(request)
		return len(args) > 1 && strings.EqualFold(args[0], "EVALSHA") && args[1] == sha
	}
}

// S13: the reply to an acquire, a nested one, and both releases is swallowed, in
// turn. Each call still has its effect once: the client's own retries are off,
// and ours ask for a state.
func TestS13_SwallowedReplies(t *testing.T) {
	s := redistest.Start(t)
	for p, proxy := range throughProxy(t, s) {
		for _, then := range []redistest.Aftermath{redistest.ThenSilence, redistest.ThenReset} {
			t.Run(p.name+"/"+strconv.Itoa(int(then)), func(t *testing.T) {
				name := fresh()
				c := p.client(t, holdfast.WithTimeout(3*time.Second))
				unlock(t, must(t)(c.NewMutex(name).Lock(background))) // scripts are loaded
				swallow := func(what string) {
					proxy.SwallowNextReply(sends(what), then)
				}
				stands := func(want ...string) {
					t.Helper()
					if got := p.do(t, name, "HVALS", name); !slices.Equal(got, want) {
						t.Errorf("counts in Redis: %v, want %v", got, want)
					}
				}
				swallow("acquire")
				outer := must(t)(c.NewMutex(name).Lock(background))
				stands("1")
				swallow("acquire")
				inner := must(t)(c.NewMutex(name).Lock(outer.Context()))
				stands("2")
				swallow("release")
				unlock(t, inner)
				stands("1")
				swallow("release")
				unlock(t, outer)
				stands()
			})
		}
	}
}

// The holder's connection is cut off, in one or both directions: it is told
// before the key can expire on the server.
func TestBlackHoledHolderIsToldInTime(t *testing.T) {
	s := redistest.Start(t)
	for p, proxy := range throughProxy(t, s) {
		for _, direction := range []redistest.Direction{redistest.ToServer, redistest.ToClient, redistest.Both} {
			t.Run(p.name+"/"+strconv.Itoa(int(direction)), func(t *testing.T) {
				name := fresh()
				c := p.client(t, holdfast.WithLease(900*time.Millisecond))
				h := must(t)(c.NewMutex(name).Lock(background))
				proxy.BlackHole(direction, true)
				defer proxy.BlackHole(direction, false)
				<-h.Context().Done()
				left := p.do(t, name, "PTTL", name)
				if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
					t.Errorf("cause %v", cause)
				}
				if ms, err := strconv.Atoi(left[0]); err != nil || ms < 0 {
					t.Errorf("the key was gone when the holder was told: PTTL %v", left)
				}
				proxy.BlackHole(direction, false)
				wantError(t, h.Unlock(), holdfast.ErrLost)
			})
		}
	}
}

// L1: the subscriber's connection is killed between the release and its
// delivery, again and again; nobody waits longer than the cap.
func TestL1_KilledSubscribersMissNothingForLong(t *testing.T) {
	s := redistest.Start(t)
	for p := range throughProxy(t, s) {
		t.Run(p.name, func(t *testing.T) {
			name := fresh()
			a, b := p.client(t), p.client(t)
			for range 5 {
				h := must(t)(a.NewMutex(name).Lock(background))
				got := make(chan struct{})
				go func() {
					defer close(got)
					next, err := b.NewMutex(name).Lock(background, holdfast.Wait(20*time.Second))
					if err != nil {
						t.Error(err)
						return
					}
					unlock(t, next)
				}()
				waitFor(t, "the waiter", func() bool { return p.listens(t, name) })
				s.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
				start := time.Now()
				unlock(t, h)
				<-got
				if took := time.Since(start); took > 4*time.Second {
					t.Errorf("the waiter got it after %v", took)
				}
			}
		})
	}
}

// A holder that was stopped past its lease learns of it when it wakes.
func TestStoppedProcessIsToldWhenItWakes(t *testing.T) {
	s := redistest.Start(t)
	name := fresh()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestHelperHolder$")
	cmd.Env = append(os.Environ(), "HOLDER_REDIS="+s.Addr(), "HOLDER_LOCK="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	in := bufio.NewScanner(out)
	next := func() string {
		for in.Scan() {
			if line, ok := strings.CutPrefix(in.Text(), "holder: "); ok {
				return line
			}
		}
		t.Fatalf("the holder said nothing: %v", in.Err())
		return ""
	}
	if line := next(); line != "held" {
		t.Fatal(line)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the key's end", func() bool { return s.Cli(t, "EXISTS", name) == "0" })
	woken := time.Now()
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line := next()
	nanos, err := strconv.ParseInt(strings.TrimPrefix(line, "lost "), 10, 64)
	if err != nil {
		t.Fatalf("the holder said %q", line)
	}
	if took := time.Unix(0, nanos).Sub(woken); took > 100*time.Millisecond {
		t.Errorf("told %v after it was woken", took)
	}
}

// TestHelperHolder is the process that is stopped: a holder that says when it
// got the lock and when it lost it.
func TestHelperHolder(t *testing.T) {
	addr := os.Getenv("HOLDER_REDIS")
	if addr == "" {
		return // not a test of its own
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	c, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithLease(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(background)
	h := must(t)(c.NewMutex(os.Getenv("HOLDER_LOCK")).Lock(background))
	say("held")
	<-h.Context().Done()
	say("lost " + strconv.FormatInt(time.Now().UnixNano(), 10))
	_ = h.Unlock()
}

func say(line string) { _, _ = os.Stdout.WriteString("holder: " + line + "\n") }
