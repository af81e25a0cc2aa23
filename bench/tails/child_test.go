package tails

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childVariable has the order of a child, as JSON.
const childVariable = "HOLDFAST_TAILS_CHILD"

// order is what a child does: it takes locks, each at a random moment within the spread, and says
// when it has one and when it is told that it has lost it.
type order struct {
	Subject string        `json:"subject"`
	Target  target        `json:"target"`
	Names   []string      `json:"names"`
	Role    role          `json:"role"`
	Spread  time.Duration `json:"spread"`
	Seed    uint64        `json:"seed"` // of the moments
}

// child is what the process does that [start] starts. It ends with its input.
func child() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o); err != nil {
		fmt.Println("error", -1, err)
		return 2
	}
	s, err := subjectNamed(o.Subject)
	if err != nil {
		fmt.Println("error", -1, err)
		return 2
	}
	session, err := s.open(o.Target)
	if err != nil {
		fmt.Println("error", -1, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	say := func(what string, i int, rest any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, i, rest)
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	var all sync.WaitGroup
	for i, name := range o.Names {
		delay := time.Duration(rng.Float64() * float64(o.Spread))
		all.Go(func() {
			time.Sleep(delay)
			g, err := session.lock(ctx, name, o.Role)
			if err != nil {
				say("error", i, err)
				return
			}
			say("held", i, time.Now().UnixNano())
			select {
			case <-g.lost:
				say("lost", i, time.Now().UnixNano())
			case <-ctx.Done():
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	all.Wait()
	session.close()
	return 0
}

// process is a child that runs.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	events chan event // closed when it has ended
}

// event is what a child says: that it holds a lock, or has lost it.
type event struct {
	what string
	i    int
	at   time.Time
}

// start starts a child, which the test's cleanup ends.
func start(t *testing.T, o order) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self), events: make(chan event, 2*len(o.Names)+1)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reads sync.WaitGroup
	reads.Go(func() {
		defer close(p.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f := strings.SplitN(lines.Text(), " ", 3)
			if len(f) < 3 || f[0] == "error" {
				t.Errorf("a child of %q says %q", o.Subject, lines.Text())
				continue
			}
			i, err := strconv.Atoi(f[1])
			ns, err2 := strconv.ParseInt(f[2], 10, 64)
			if err != nil || err2 != nil {
				t.Errorf("a child says %q", lines.Text())
				continue
			}
			p.events <- event{f[0], i, time.Unix(0, ns)}
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		reads.Wait()
		_ = p.cmd.Wait()
	})
	return p
}

// begin starts a child, and returns when it holds its locks. That a peer's does not get locks that are free is
// not what is measured: then another child begins.
func begin(t *testing.T, o order, s subject) (*process, []string) {
	t.Helper()
	for {
		o.Names = fresh(len(o.Names))
		p := start(t, o)
		if s.peer && !p.holdsAll(len(o.Names)) {
			t.Logf("a child of %s did not get %d locks that were free", s.name, len(o.Names))
			p.kill(t)
			continue
		}
		if !s.peer {
			p.collect(t, "held", len(o.Names), limit)
		}
		return p, o.Names
	}
}

// holdsAll waits for it to hold so many locks, for a while.
func (p *process) holdsAll(n int) bool {
	timeout := time.After(5 * time.Second)
	for range n {
		select {
		case e, ok := <-p.events:
			if !ok || e.what != "held" {
				return false
			}
		case <-timeout:
			return false
		}
	}
	return true
}

// collect waits for so many events of one sort, and returns when each was.
func (p *process) collect(t *testing.T, what string, n int, most time.Duration) []time.Time {
	t.Helper()
	at := make([]time.Time, n)
	timeout := time.After(most)
	for got := 0; got < n; {
		select {
		case e, ok := <-p.events:
			if !ok {
				t.Fatalf("a child has ended: %d of %d %s", got, n, what)
			}
			if e.what != what {
				continue
			}
			at[e.i] = e.at
			got++
		case <-timeout:
			t.Fatalf("%d of %d %s after %v", got, n, what, most)
		}
	}
	return at
}

// kill kills it, and returns when it does nothing any more.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range p.events {
		continue // until the kernel has closed the pipe, which it does last
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
