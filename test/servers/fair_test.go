package servers

import (
	"bytes"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What stands in Redis for a fair lock is what Redisson puts there, with two keys more.
func TestFairMutex(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){"OnTheWire": fairOnTheWire})
}

func lineOf(t *testing.T, p *kit.Platform, name string) []string {
	t.Helper()
	return p.Do(t, name, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1")
}

// awaitPlace returns when an owner stands in line.
func awaitPlace(t *testing.T, p *kit.Platform, name, owner string) {
	t.Helper()
	kit.WaitFor(t, "its place in line", func() bool { return slices.Contains(lineOf(t, p, name), owner) })
}

// queued has one wait for a fair lock, and returns when it stands in line.
func queued(t *testing.T, p *kit.Platform, name string) (owner string, got chan *holdfast.Hold) {
	t.Helper()
	c := p.Client(t)
	id := c.NewOwner()
	got = make(chan *holdfast.Hold, 1)
	go func() {
		h, err := c.NewFairMutex(name).Lock(holdfast.WithOwner(background, id))
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	awaitPlace(t, p, name, id.String())
	return id.String(), got
}

func fairOnTheWire(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	wantReply(t, p, name, h.Owner().String()+" 1", "HGETALL", name)
	a, gotA := queued(t, p, name)
	b, gotB := queued(t, p, name)
	wantReply(t, p, name, a+" "+b, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1")
	for _, owner := range []string{a, b} {
		if got := p.Do(t, name, "ZSCORE", "redisson_lock_timeout:{"+name+"}", owner); len(got) != 1 || len(got[0]) != 13 {
			t.Errorf("score %v", got)
		}
		kit.WaitFor(t, "its number", func() bool { // so that it can be granted the lock
			return slices.Contains(p.Do(t, name, "HKEYS", "holdfast_asks:{"+name+"}"), owner)
		})
		kit.WaitFor(t, "the end of its own subscription", func() bool {
			return !listensOn(t, p, name, "redisson_lock__channel:{"+name+"}:"+owner)
		})
	}
	wantReply(t, p, name, "zset", "TYPE", "holdfast_lock_waiting:{"+name+"}")
	if found, err := c.NewFairMutex(name).Inspect(background); err != nil || len(found.Waiters) != 2 || len(found.Holders) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	kit.Unlock(t, h)
	kit.Unlock(t, <-gotA)
	kit.Unlock(t, <-gotB)
	wantReply(t, p, name, "", "KEYS", "*{"+name+"}*")
}

// waitInFairLine is a process that waits for a fair lock.
func waitInFairLine(addr, name string) error {
	c, end, err := clientOf(addr)
	if err != nil {
		return err
	}
	defer end()
	owner := c.NewOwner()
	say("waits", owner)
	h, err := c.NewFairMutex(name).Lock(holdfast.WithOwner(background, owner))
	if err != nil {
		return err
	}
	say("held")
	return h.Unlock()
}

// stand sends a process a signal after which it does nothing any more: it may still take a lock that it is told of.
func (p *process) stand(t *testing.T, s syscall.Signal) {
	t.Helper()
	p.signal(t, s)
	kit.WaitFor(t, "the process to stand still", func() bool {
		state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output() // none: it is gone
		return !bytes.ContainsAny(state, "RSD")
	})
}

// L6: of processes that wait, one is killed, first in line or behind: it is out of the line, and the next one gets the lock.
// Another is only stopped, and takes the last place when it goes on.
func TestL6_KilledAndStoppedProcesses(t *testing.T) {
	t.Parallel()
	s, p, _ := started(t)
	var all sync.WaitGroup
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		name := kit.Fresh()
		h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
		waiter := func() (w *process, owner string) {
			w = startProcess(t, "waits", s, name)
			owner = w.says(t, "waits ")
			awaitPlace(t, p, name, owner)
			return w, owner
		}
		first, owner := waiter()
		a, gotA := queued(t, p, name)
		second, _ := waiter()
		b, gotB := queued(t, p, name)
		all.Go(func() {
			first.stand(t, sig)
			second.stand(t, syscall.SIGKILL)
			kit.Unlock(t, h)
			holdA := <-gotA
			if sig == syscall.SIGSTOP {
				first.signal(t, syscall.SIGCONT)
				awaitPlace(t, p, name, owner)
			}
			kit.Unlock(t, holdA)
			holdB := <-gotB
			if holdA.Owner().String() != a || holdB.Owner().String() != b {
				t.Errorf("%v: held by %v, then %v; want %v, then %v", sig, holdA.Owner(), holdB.Owner(), a, b)
			}
			kit.Unlock(t, holdB)
			if sig == syscall.SIGSTOP {
				first.says(t, "held")
			}
			nothingLeft(t, p, name)
		})
	}
	all.Wait()
}
