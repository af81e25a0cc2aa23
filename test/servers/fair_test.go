package servers

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// awaitPlace returns when an owner stands in the line of a fair lock.
func awaitPlace(t *testing.T, p *kit.Platform, name, owner string) {
	t.Helper()
	kit.WaitFor(t, "its place in line", func() bool {
		return slices.Contains(p.Do(t, name, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1"), owner)
	})
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

// waitInFairLine is a process that waits for a fair lock.
func waitInFairLine(addr, name string) error {
	c, end, err := clientOf(addr, false, holdfast.DefaultLease)
	if err != nil {
		return err
	}
	defer end()
	owner := c.NewOwner()
	fmt.Println("waits", owner)
	h, err := c.NewFairMutex(name).Lock(holdfast.WithOwner(background, owner))
	if err != nil {
		return err
	}
	fmt.Println("held")
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

// L6: of processes that wait, the first in line is killed, and another one behind it: they are out of the line, and the next one gets
// the lock. Another is only stopped, and takes the last place when it goes on.
func TestL6_KilledAndStoppedProcesses(t *testing.T) {
	t.Parallel()
	s, p, _ := started(t)
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	waiter := func() (w *process, owner string) {
		w = startProcess(t, "waits", s, name)
		owner = w.says(t, "waits ")
		awaitPlace(t, p, name, owner)
		return w, owner
	}
	first, _ := waiter()
	a, gotA := queued(t, p, name)
	second, _ := waiter()
	stopped, owner := waiter()
	b, gotB := queued(t, p, name)
	first.stand(t, syscall.SIGKILL)
	second.stand(t, syscall.SIGKILL)
	stopped.stand(t, syscall.SIGSTOP)
	kit.Unlock(t, h)
	holdA := <-gotA
	kit.Unlock(t, holdA)
	holdB := <-gotB
	if holdA.Owner().String() != a || holdB.Owner().String() != b {
		t.Errorf("held by %v, then %v; want %v, then %v", holdA.Owner(), holdB.Owner(), a, b)
	}
	stopped.signal(t, syscall.SIGCONT)
	awaitPlace(t, p, name, owner)
	kit.Unlock(t, holdB)
	stopped.says(t, "held")
	nothingLeft(t, p, kit.MutexKind, name)
}
