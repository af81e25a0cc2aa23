package tails

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/bench/crews"
)

// childVariable is set in the environment of a child.
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

// event is what a child says: that it holds a lock, or has lost it. What goes wrong it writes to its standard error.
type event struct {
	What string    `json:"what"`
	I    int       `json:"i"` // of the lock
	At   time.Time `json:"at"`
}

// Child is the program of a child, and reports whether this is one. It ends with its input.
func Child() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	logging.Disable() // of go-redis
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	if err := beChild(bufio.NewReader(os.Stdin), func(e event) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(e) // if nobody reads, this process is of no use
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return true
}

func beChild(in *bufio.Reader, say func(event)) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	s, err := subjectNamed(o.Subject)
	if err != nil {
		return err
	}
	session, err := s.open(o.Target)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	var all sync.WaitGroup
	for i, name := range o.Names {
		delay := time.Duration(rng.Float64() * float64(o.Spread))
		all.Go(func() {
			time.Sleep(delay)
			g, err := session.lock(ctx, name, o.Role)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			say(event{"held", i, time.Now()})
			select {
			case <-g.Lost:
				say(event{"lost", i, time.Now()})
			case <-ctx.Done():
			}
		})
	}
	_, _ = io.Copy(io.Discard, in)
	cancel()
	all.Wait()
	session.close()
	return nil
}

// process is a child that runs.
type process struct{ *crews.Process }

// complaints are what children write to their standard error: the test fails.
type complaints struct{ t *testing.T }

func (c complaints) Write(text []byte) (int, error) {
	c.t.Errorf("a child says %q", text)
	return len(text), nil
}

// start starts a child, which the test's cleanup ends.
func start(t *testing.T, o order) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := crews.Start(background, time.Second, complaints{t}, []string{childVariable + "=1"}, self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Say(o); err != nil {
		t.Fatal(err)
	}
	return process{p}
}

// begin starts a child, and returns when it holds its locks. That a peer's does not get locks that are free is
// not what is measured: then another child begins.
func begin(t *testing.T, o order, s subject) (process, []string) {
	t.Helper()
	for {
		o.Names = fresh(len(o.Names))
		p := start(t, o)
		most := limit
		if s.peer {
			most = 5 * time.Second
		}
		_, err := p.events("held", len(o.Names), most)
		switch {
		case err == nil:
			return p, o.Names
		case !s.peer:
			t.Fatal(err)
		}
		t.Logf("a child of %s did not get %d locks that were free: %v", s.name, len(o.Names), err)
		p.Kill()
	}
}

// events waits for so many events of one sort, and returns when each was.
func (p process) events(what string, n int, most time.Duration) ([]time.Time, error) {
	ctx, cancel := context.WithTimeout(background, most)
	defer cancel()
	at := make([]time.Time, n)
	for got := 0; got < n; {
		var e event
		if err := p.Answer(ctx, &e); err != nil {
			return nil, fmt.Errorf("%d of %d %s: %w", got, n, what, err)
		}
		if e.What == what {
			at[e.I] = e.At
			got++
		}
	}
	return at, nil
}

// collect is events. The test ends if they do not come.
func (p process) collect(t *testing.T, what string, n int) []time.Time {
	t.Helper()
	at, err := p.events(what, n, limit)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (p process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}
