package servers

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Faults of the network between real clients and a real server.

// sends matches requests that run a script of the kind's.
func sends(k *kit.Kind, name string) func([]byte) bool {
	sha := map[string]string{
		"acquire": k.Scripts.Acquire.SHA(), "release": k.Scripts.Release.SHA(),
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
	t.Parallel()
	s := redistest.Start(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for p, proxy := range kit.ThroughProxy(t, s) {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				for _, then := range []redistest.Aftermath{redistest.ThenSilence, redistest.ThenReset} {
					swallowedReplies(t, p, k, func(what string) { proxy.SwallowNextReply(sends(k, what), then) })
				}
			})
		}
	})
}

func swallowedReplies(t *testing.T, p *kit.Platform, k *kit.Kind, swallow func(what string)) {
	t.Helper()
	name := p.Fresh(t, k)
	c := p.Client(t, holdfast.WithTimeout(9*time.Second))
	mu := k.Lock(c, name)
	kit.Unlock(t, kit.Must(t)(mu.Lock(background))) // scripts are loaded
	swallow("acquire")
	outer := kit.Must(t)(mu.Lock(background))
	p.WantCount(t, k, name, outer.Owner(), 1)
	if k.Nests {
		swallow("acquire")
		inner := kit.Must(t)(mu.Lock(outer.Context()))
		p.WantCount(t, k, name, outer.Owner(), 2)
		swallow("release")
		kit.Unlock(t, inner)
		p.WantCount(t, k, name, outer.Owner(), 1)
	}
	swallow("release")
	kit.Unlock(t, outer)
	p.WantNothing(t, k, name)
}

// The holder's connection is cut off, in one or both directions: it is told
// before the key can expire on the server.
func TestBlackHoledHolderIsToldInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	do := kit.Direct(t, s)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for p, proxy := range kit.ThroughProxy(t, s) {
			p.Do = do
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				for _, direction := range []redistest.Direction{redistest.ToServer, redistest.ToClient, redistest.Both} {
					blackHoled(t, p, k, func(on bool) { proxy.BlackHole(direction, on) })
				}
			})
		}
	})
}

func blackHoled(t *testing.T, p *kit.Platform, k *kit.Kind, cut func(on bool)) {
	t.Helper()
	name := p.Fresh(t, k)
	c := p.Client(t, holdfast.WithLease(6*time.Second), holdfast.WithMargin(2500*time.Millisecond))
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	cut(true)
	defer cut(false)
	<-h.Context().Done()
	told := time.Now()
	if left := k.Lives(p.Ask(t, name), name, h.Owner().String()); left <= 0 {
		t.Errorf("the key was gone when the holder was told: %v; late by %v, read in %v", left, told.Sub(h.Deadline()), time.Since(told))
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	cut(false)
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
}

// L1: the subscriber's connection is killed between the release and its
// delivery, again and again; nobody waits longer than the cap.
func TestL1_KilledSubscribersMissNothingForLong(t *testing.T) {
	t.Parallel()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if k.Polls {
			return // nobody subscribes
		}
		s := redistest.Start(t) // every kill hits all of its subscribers
		for p := range kit.ThroughProxy(t, s) {
			t.Run(p.Name, func(t *testing.T) { killedSubscribers(t, s, p, k) })
		}
	})
}

func killedSubscribers(t *testing.T, s *redistest.Server, p *kit.Platform, k *kit.Kind) {
	t.Helper()
	name := p.Fresh(t, k)
	a, b := p.Client(t), p.Client(t)
	for range 5 {
		h := kit.Must(t)(k.Lock(a, name).Lock(background))
		got := make(chan struct{})
		go func() {
			defer close(got)
			next, err := k.Against(b, name).Lock(background, holdfast.Wait(20*time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			kit.Unlock(t, next)
		}()
		p.AwaitWaiter(t, k, name)
		s.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
		start := time.Now()
		kit.Unlock(t, h)
		<-got
		if took := time.Since(start); took > 8*time.Second { // it would wait for the lease, 30 s
			t.Errorf("the waiter got it after %v", took)
		}
	}
}

// A holder that was stopped past its lease learns of it when it wakes.
func TestStoppedProcessIsToldWhenItWakes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := kit.Fresh()
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
	kit.WaitFor(t, "the key's end", func() bool { return s.Cli(t, "EXISTS", name) == "0" })
	woken := time.Now()
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line := next()
	nanos, err := strconv.ParseInt(strings.TrimPrefix(line, "lost "), 10, 64)
	if err != nil {
		t.Fatalf("the holder said %q", line)
	}
	if took := time.Unix(0, nanos).Sub(woken); took > 5*time.Second { // robustness.md has figures
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
	c, err := testclient.New(goredisdriver.New(rdb), holdfast.WithLease(6*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := kit.Must(t)(c.NewMutex(os.Getenv("HOLDER_LOCK")).Lock(background))
	say("held")
	<-h.Context().Done()
	say("lost " + strconv.FormatInt(time.Now().UnixNano(), 10))
	_ = h.Unlock()
}

func say(line string) { _, _ = os.Stdout.WriteString("holder: " + line + "\n") }
