package servers

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// Waiters in processes of their own, which are killed or stopped.

// fairChild is a process that waits for a fair lock.
type fairChild struct {
	cmd   *exec.Cmd
	owner string
	out   *bufio.Scanner
}

// fairWaiter starts a process that waits for a fair lock, and returns when it
// stands in line.
func fairWaiter(t *testing.T, p *kit.Platform, addr, name string) *fairChild {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestHelperFairWaiter$")
	cmd.Env = append(os.Environ(), "WAITER_REDIS="+addr, "WAITER_LOCK="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &fairChild{cmd: cmd, out: bufio.NewScanner(out)}
	c.owner = c.says(t, "waits ")
	kit.WaitFor(t, "the process's place in line", func() bool { return slices.Contains(lineOf(t, p, name), c.owner) })
	return c
}

// says waits for the process to say something, and returns the rest of it.
func (c *fairChild) says(t *testing.T, what string) string {
	t.Helper()
	for c.out.Scan() {
		if rest, ok := strings.CutPrefix(c.out.Text(), "holder: "+what); ok {
			return rest
		}
	}
	t.Fatalf("the process did not say %q: %v", what, c.out.Err())
	return ""
}

func (c *fairChild) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if s != syscall.SIGKILL && s != syscall.SIGSTOP {
		return
	}
	// Until it does nothing any more: it may still take a lock that it is told of.
	kit.WaitFor(t, "the process to stand still", func() bool {
		state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(c.cmd.Process.Pid)).Output() // none: it is gone
		return !bytes.ContainsAny(state, "RSD")
	})
}

// TestHelperFairWaiter is that process.
func TestHelperFairWaiter(t *testing.T) {
	addr := os.Getenv("WAITER_REDIS")
	if addr == "" {
		return // not a test of its own
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	c, err := testclient.New(goredisdriver.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	owner := c.NewOwner()
	say("waits " + owner.String())
	h := kit.Must(t)(c.NewFairMutex(os.Getenv("WAITER_LOCK")).Lock(holdfast.WithOwner(background, owner)))
	say("held")
	kit.Unlock(t, h)
}

// L6: a process that waits is killed, first in line or behind; it is out of the
// line within seconds, and the next one gets the lock. Another is only stopped,
// and takes the last place when it goes on.
func TestL6_KilledAndStoppedProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s))
	var all sync.WaitGroup
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		name := kit.Fresh()
		h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
		first := fairWaiter(t, p, s.Addr(), name)
		a, gotA := queued(t, p, name)
		second := fairWaiter(t, p, s.Addr(), name)
		b, gotB := queued(t, p, name)
		all.Go(func() {
			first.signal(t, sig)
			second.signal(t, syscall.SIGKILL)
			killed := time.Now()
			kit.Unlock(t, h)
			holdA := <-gotA
			if took := time.Since(killed); took > 6*time.Second || took < 2*time.Second {
				t.Errorf("%v: the next one got it after %v", sig, took)
			}
			if sig == syscall.SIGSTOP {
				first.signal(t, syscall.SIGCONT)
				// The second has not been looked at yet, as it is not first.
				for end := time.Now().Add(10 * time.Second); !slices.Contains(lineOf(t, p, name), first.owner); {
					if time.Now().After(end) {
						t.Error("it did not come back")
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			if h.Owner() == a || holdA.Owner() != a {
				t.Errorf("%v holds it", holdA.Owner())
			}
			released := time.Now()
			kit.Unlock(t, holdA)
			holdB := <-gotB
			if took := time.Since(released); holdB.Owner() != b || took > 4*time.Second {
				t.Errorf("%v: the last one got it after %v", sig, took)
			}
			kit.Unlock(t, holdB)
			if sig == syscall.SIGSTOP {
				first.says(t, "held")
			}
			left := func() string { return s.Cli(t, "KEYS", "*{"+name+"}*") }
			for end := time.Now().Add(5 * time.Second); left() != "" && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			if keys := left(); keys != "" {
				t.Errorf("%v: left behind: %s", sig, keys)
			}
		})
	}
	all.Wait()
}

// A process that waits is killed. Four and a half seconds later one who asks for the first
// time gets the lock.
func TestKilledWaiterKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s))
	name := kit.Fresh()
	mu := p.Client(t).NewFairMutex(name)
	h := kit.Must(t)(mu.Lock(background))
	waiter := fairWaiter(t, p, s.Addr(), name)
	waiter.signal(t, syscall.SIGKILL)
	killed := time.Now()
	kit.Unlock(t, h)
	_, err := mu.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	time.Sleep(time.Until(killed.Add(4500 * time.Millisecond))) // what is promised
	kit.Unlock(t, kit.Must(t)(mu.TryLock(background)))
}

// L8: the server is stopped for longer than a waiter is believed, or comes back
// empty; nobody is lost, and the line stands if the server knows of it.
func TestL8_StoppedAndRestartedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, p := range []*kit.Platform{
		kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.CLI(s)),
	} {
		name := kit.Fresh()
		h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background, holdfast.FixedLease(10*time.Minute)))
		var line []string
		var got []chan *holdfast.Hold
		for range 4 {
			owner, c := queued(t, p, name)
			line, got = append(line, owner.String()), append(got, c)
		}
		s.Stop()
		time.Sleep(12 * time.Second) // the fault
		s.Cont()
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if now := lineOf(t, p, name); !slices.Equal(now, line) { // while each asks again
				t.Fatalf("the line was %v, and is %v", line, now)
			}
		}
		s.Kill()
		s.Restart()
		lost := time.Now()
		var all sync.WaitGroup
		for _, c := range got {
			all.Go(func() {
				if h, ok := <-c; ok {
					_ = h.Unlock()
				}
			})
		}
		all.Wait()
		if took := time.Since(lost); took > 15*time.Second {
			t.Errorf("all had it after %v", took)
		}
		_ = h.Unlock()
	}
}

// The smallest rights that a fair lock needs.
func TestFairACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Cli(t, kit.Known(t, []string{
		"ACL", "SETUSER", "fair", "on", ">pw", "resetkeys", "resetchannels", "-@all",
		"~lk:*", "~redisson_lock_queue:{lk:*", "~redisson_lock_timeout:{lk:*", "~holdfast_lock_waiting:{lk:*",
		"~holdfast_asks:{lk:*", "~redisson_lock_token:{lk:*", "~holdfast_client:*", "&redisson_lock__channel:{lk:*", "&holdfast_granted:*",
		"+eval", "+evalsha", "+time", "+exists", "+hget", "+hset", "+hdel", "+hkeys", "+hexists", "+hgetall", "+pttl", "+pexpire", "+persist", "+del",
		"+get", "+set", "+lindex", "+lpos", "+llen", "+ltrim", "+rpush", "+lrem", "+unlink", "+lrange",
		"+zscore", "+zadd", "+zrem", "+zcard", "+zcount", "+zrangebyscore",
		"+publish", "+pubsub|numsub", "+subscribe", "+unsubscribe", "+ping", "+hello", "+auth", "+client", "+cluster|shards",
	})...)
	p := kit.GoRedis("acl", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: "fair", Password: "pw"}, kit.CLI(s))
	name := "lk:" + kit.Fresh()
	mu := p.Client(t).NewFairMutex(name, holdfast.Fenced())
	h := kit.Must(t)(mu.Lock(background))
	_, got := queued(t, p, name, holdfast.Fenced())
	inner := kit.Must(t)(mu.Lock(h.Context()))
	kit.Unlock(t, inner)
	_, err := mu.Lock(background, holdfast.Wait(time.Second))
	kit.WantError(t, err, holdfast.ErrLocked)
	if err := h.Extend(background, time.Minute); err != nil {
		t.Error(err)
	}
	kit.Unlock(t, h)
	next := <-got
	if was, err := mu.ForceUnlock(background); err != nil || !was {
		t.Errorf("ForceUnlock: %v, %v", was, err)
	}
	_ = next.Unlock()
	if log := s.Cli(t, "ACL", "LOG"); log != "" {
		t.Errorf("refused: %s", log)
	}
}
