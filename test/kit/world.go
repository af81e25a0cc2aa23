package kit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
)

// World is a server in memory and its clients, under fake time.
type World struct {
	T      *testing.T
	Server *memdriver.Server
	Kind   *Kind    // of the locks
	Names  []string // of the locks: x, and others that are used
}

// Fake runs f under fake time. At the end every client is closed, and nothing
// may be left: no key but those that the kind keeps, no subscription, and no goroutine, which synctest sees to.
func Fake(t *testing.T, f func(t *testing.T, w *World)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		server, err := memdriver.NewServer()
		OK(t, err)
		t.Cleanup(server.Close)
		w := &World{T: t, Server: server, Kind: MutexKind, Names: []string{"x"}}
		t.Cleanup(func() {
			w.WantNothing()
			w.WantReply("", "PUBSUB", "CHANNELS")
		})
		f(t, w)
	})
}

// Client returns a client with a driver of its own. It does not say who it is, unless it is asked to:
// calls are counted, and fail as a test says.
func (w *World) Client(options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver) {
	w.T.Helper()
	d := w.Server.Driver()
	c, err := testclient.New(d, append([]holdfast.ClientOption{holdfast.WithoutIdentity()}, options...)...)
	OK(w.T, err)
	w.T.Cleanup(func() {
		d.SetFaults(nil)
		if err := c.Close(); err != nil {
			w.T.Errorf("Close: %v", err)
		}
	})
	return c, d
}

// Do executes a command and returns its reply as text.
func (w *World) Do(args ...string) string {
	w.T.Helper()
	reply, err := w.Server.Do(args...)
	if err != nil {
		w.T.Fatalf("%v: %v", args, err)
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// WantReply checks the reply to a command.
func (w *World) WantReply(want string, args ...string) {
	w.T.Helper()
	if got := w.Do(args...); got != want {
		w.T.Errorf("%v = %q, want %q", args, got, want)
	}
}

// WantCount checks what stands in Redis: one owner, so many times; 0 is nothing.
func (w *World) WantCount(name string, owner holdfast.Owner, count int) {
	w.T.Helper()
	w.Kind.wantCount(w.T, w.Ask, name, owner, count)
}

// PTTL returns the time to live of a key.
func (w *World) PTTL(name string) time.Duration { return PTTL(w.Ask, name) }

// Must returns the hold of a Lock that has to succeed.
func (w *World) Must(h *holdfast.Hold, err error) *holdfast.Hold {
	w.T.Helper()
	return Must(w.T)(h, err)
}

// Unlock gives holds back, which has to succeed.
func (w *World) Unlock(holds ...*holdfast.Hold) {
	w.T.Helper()
	for _, h := range holds {
		Unlock(w.T, h)
	}
}

// Lost checks that Unlock says that the hold was lost.
func (w *World) Lost(h *holdfast.Hold) {
	w.T.Helper()
	WantError(w.T, h.Unlock(), holdfast.ErrLost)
}

var background = context.Background()

var billing = holdfast.Identity{Program: "billing", Version: "v1.2.3", Host: "web-3", PID: 4711}

// Known is a client that says who it is.
func (w *World) Known(options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver) {
	w.T.Helper()
	return w.Client(append([]holdfast.ClientOption{holdfast.WithIdentity(billing)}, options...)...)
}

// PermitsWorld is [Fake] with a semaphore of n permits, which are all there again at the end. Then nothing else is left,
// as Redisson's wire demands.
func PermitsWorld(t *testing.T, n int, f func(t *testing.T, w *World)) {
	t.Helper()
	withPermits(t, n, func(c *holdfast.Client) (bool, error) { return c.NewPermitSemaphore("x").TrySetPermits(background, n) }, f)
}

// CounterWorld is [PermitsWorld] of a semaphore without leases.
func CounterWorld(t *testing.T, n int, f func(t *testing.T, w *World)) {
	t.Helper()
	withPermits(t, n, func(c *holdfast.Client) (bool, error) {
		return c.NewUnleasedSemaphore("x").TrySetPermits(background, n)
	}, f)
}

func withPermits(t *testing.T, n int, set func(*holdfast.Client) (bool, error), f func(t *testing.T, w *World)) {
	t.Helper()
	Fake(t, func(t *testing.T, w *World) {
		c, _ := w.Client()
		if ok, err := set(c); !ok || err != nil {
			t.Fatal(ok, err)
		}
		t.Cleanup(func() {
			time.Sleep(CallsLive)
			w.WantReply("x", "KEYS", "*")
			w.WantReply(fmt.Sprint(n), "GET", "x")
			w.Do("DEL", "x")
		})
		f(t, w)
	})
}

// Fields reads the reply to HGETALL.
func Fields(lines []string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		m[lines[i]] = lines[i+1]
	}
	return m
}
