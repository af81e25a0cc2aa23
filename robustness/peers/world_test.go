package peers

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/memdriver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

// world is a server in memory, under fake time.
type world struct {
	t      *testing.T
	server *memdriver.Server
}

// both runs a schedule against the model of a peer's way, and against holdfast.
func both(t *testing.T, model, ours func(t *testing.T, w *world)) {
	t.Helper()
	for name, f := range map[string]func(t *testing.T, w *world){"peer": model, "holdfast": ours} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				server, err := memdriver.NewServer()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Close)
				f(t, &world{t, server})
			})
		})
	}
}

// client returns a client of holdfast's, which the test's cleanup closes.
func (w *world) client(options ...holdfast.ClientOption) (*holdfast.Client, *memdriver.Driver) {
	w.t.Helper()
	d := w.server.Driver()
	c, err := holdfast.New(d, append(options, holdfast.WithoutIdentity())...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		d.SetFaults(nil)
		_ = c.Close() // what it could not give back is the schedule's
	})
	return c, d
}

// do executes a command as the model of a peer does, and returns its reply.
func (w *world) do(args ...any) any {
	w.t.Helper()
	reply, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// try executes a command, in any goroutine.
func (w *world) try(args ...any) (any, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	return w.server.Do(words...)
}

// eval runs a script of a peer's model on one key.
func (w *world) eval(script, key string, args ...any) any {
	w.t.Helper()
	return w.do(append([]any{"EVAL", script, "1", key}, args...)...)
}

// number is a reply as a number; 0 if there is none.
func (w *world) number(reply any) int64 {
	w.t.Helper()
	switch r := reply.(type) {
	case nil:
		return 0
	case int64:
		return r
	case string:
		n, err := strconv.ParseFloat(r, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		return int64(n)
	}
	w.t.Fatalf("a reply of type %T", reply)
	return 0
}

// exists reports whether there is such a key.
func (w *world) exists(key string) bool { return w.number(w.do("EXISTS", key)) == 1 }

// ttl is how long a key has to live.
func (w *world) ttl(key string) time.Duration {
	return time.Duration(w.number(w.do("PTTL", key))) * time.Millisecond
}

// hold returns what a call has returned, and fails if that was an error.
func (w *world) hold(h *holdfast.Hold, err error) *holdfast.Hold {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) unlock(h *holdfast.Hold) {
	w.t.Helper()
	if err := h.Unlock(); err != nil {
		w.t.Error(err)
	}
}

// next has a fault befall the next call of a script whose name ends so, and no other.
func (w *world) next(d *memdriver.Driver, script string, f memdriver.Fault) {
	done := false
	w.t.Cleanup(func() {
		if !done {
			w.t.Errorf("no call of a script %q: the fault never happened", script)
		}
	})
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		if name := call.Script.Name(); done || len(name) < len(script) || name[len(name)-len(script):] != script {
			return memdriver.Fault{}
		}
		done = true
		return f
	})
}
