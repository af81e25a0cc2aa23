package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
)

// world is a server in memory and its clients, under fake time.
type world struct {
	t      *testing.T
	server *memdriver.Server
	kind   *kind    // of the locks
	names  []string // of the locks: x, and others that are used
}

// fake runs f under fake time. At the end every client is closed, and nothing
// may be left: no key but those that the kind keeps, no subscription, and no goroutine, which synctest sees to.
func fake(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		server, err := memdriver.NewServer()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		w := &world{t: t, server: server, kind: mutexKind, names: []string{"x"}}
		t.Cleanup(func() {
			w.wantNothing()
			w.wantReply("", "PUBSUB", "CHANNELS")
		})
		f(t, w)
	})
}

// client returns a client with a driver of its own. It does not say who it is, unless it is asked to:
// calls are counted, and fail as a test says.
func (w *world) client(options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver) {
	w.t.Helper()
	d := w.server.Driver()
	c, err := testclient.New(d, append([]holdfast.ClientOption{holdfast.WithoutIdentity()}, options...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		d.SetFaults(nil)
		if err := c.Close(); err != nil {
			w.t.Errorf("Close: %v", err)
		}
	})
	return c, d
}

// do executes a command and returns its reply as text.
func (w *world) do(args ...string) string {
	w.t.Helper()
	reply, err := w.server.Do(args...)
	if err != nil {
		w.t.Fatalf("%v: %v", args, err)
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

func (w *world) wantReply(want string, args ...string) {
	w.t.Helper()
	if got := w.do(args...); got != want {
		w.t.Errorf("%v = %q, want %q", args, got, want)
	}
}

// wantCount checks what stands in Redis: one owner, so many times; 0 is nothing.
func (w *world) wantCount(name string, owner holdfast.Owner, count int) {
	w.t.Helper()
	if got, want := w.kind.stands(w.ask, name), oneOwner(owner, count); !maps.Equal(got, want) {
		w.t.Errorf("in Redis %v, want %v", got, want)
	}
}

// pttl returns the time to live of a key.
func (w *world) pttl(name string) time.Duration {
	w.t.Helper()
	reply, err := w.server.Do("PTTL", name)
	if err != nil {
		w.t.Fatal(err)
	}
	ms, ok := reply.(int64)
	if !ok {
		w.t.Fatalf("PTTL: %T", reply)
	}
	return time.Duration(ms) * time.Millisecond
}

// calls counts the scripts that a driver sends, by name.
type calls struct {
	mu sync.Mutex
	n  map[string]int
}

// count makes a driver count, and returns the counter.
func count(d *memdriver.Driver) *calls {
	c := &calls{n: map[string]int{}}
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[call.Script.Name()]++
		return memdriver.Fault{}
	})
	return c
}

func (c *calls) of(script string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[script]
}

func (c *calls) all() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.n {
		sum += n
	}
	return sum
}

// must returns the hold of a Lock that has to succeed.
func must(t *testing.T) func(*holdfast.Hold, error) *holdfast.Hold {
	return func(h *holdfast.Hold, err error) *holdfast.Hold {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func unlock(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// byMessage is how long what comes by message may take on a busy machine. A waiter that
// missed the message would ask after 3 s.
const byMessage = 2500 * time.Millisecond

func wantError(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v does not match %v", err, target)
		}
	}
}

// lostAt returns when the hold was lost, since start; it fails if it is not.
func lostAt(t *testing.T, h *holdfast.Hold, start time.Time) time.Duration {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(time.Hour):
		t.Fatal("the hold was never lost")
	}
	wantLost(t, h)
	return time.Since(start)
}

// wantLost checks that the hold's context has ended with the reason of its loss.
func wantLost(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	var lost *holdfast.LostError
	if cause := context.Cause(h.Context()); !errors.As(cause, &lost) || lost.Reason == "" || !errors.Is(cause, holdfast.ErrLost) {
		t.Fatalf("cause %v, want a *LostError", cause)
	}
}

var background = context.Background()

// away makes Redis unreachable for a driver, as if its process had crashed.
func away(d *memdriver.Driver) {
	d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
}

// spy makes a driver remember the arguments of its calls, and returns them.
func spy(d *memdriver.Driver) func() [][]string {
	var mu sync.Mutex
	var seen [][]string
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, call.Args)
		return memdriver.Fault{}
	})
	return func() [][]string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}
