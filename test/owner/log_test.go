package owner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// records are what a log has got.
type records struct {
	mu  sync.Mutex
	all []map[string]any
}

// Write takes one record in JSON.
func (r *records) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var one map[string]any
	if err := json.Unmarshal(line, &one); err != nil {
		return 0, err
	}
	r.all = append(r.all, one)
	return len(line), nil
}

// logged returns what was logged since the last call, a level and a sentence each.
func (r *records) logged() (got string, last map[string]any) {
	time.Sleep(time.Microsecond) // the client's goroutines have told
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, one := range r.all {
		lines = append(lines, fmt.Sprintf("%s %s", one["level"], strings.TrimPrefix(one["msg"].(string), "holdfast: ")))
		last = one
	}
	r.all = nil
	return strings.Join(lines, ", "), last
}

// logger returns a log that takes all from a level up.
func (r *records) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: level}))
}

// Each thing that happens is logged once, at its level.
func TestLogHooks(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var r records
		c, d := w.Client(holdfast.WithHooks(holdfast.LogHooks(r.logger(slog.LevelDebug), 5*time.Second)))
		other, _ := w.Client()
		want := func(want string) map[string]any {
			t.Helper()
			got, last := r.logged()
			if got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
			return last
		}
		x := c.NewMutex("x")
		h := kit.Must(t)(x.Lock(background))
		if e := want("DEBUG acquired"); e["lock"] != "x" || e["kind"] != "mutex" {
			t.Errorf("%v", e)
		}
		time.Sleep(11 * time.Second)
		if got, _ := r.logged(); !strings.HasPrefix(got, "DEBUG renewal") || strings.Contains(got, "WARN") {
			t.Error(got)
		}
		kit.Unlock(t, h)
		if e := want("DEBUG ended"); e["held"].(float64) < float64(11*time.Second) {
			t.Errorf("%v", e)
		}

		// Waits.
		for _, wait := range []time.Duration{time.Second, 6 * time.Second} {
			h = kit.Must(t)(other.NewMutex("x").Lock(background))
			time.AfterFunc(wait, func() { kit.Unlock(t, h) })
			kit.Unlock(t, kit.Must(t)(x.Lock(background)))
			if wait < 5*time.Second {
				want("DEBUG waiting, DEBUG acquired, DEBUG ended")
				continue
			}
			want("DEBUG waiting, INFO acquired after a long wait, DEBUG ended")
		}
		h = kit.Must(t)(other.NewMutex("x").Lock(background))
		_, err := x.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		if e := want("DEBUG not acquired"); e["error"] != err.Error() {
			t.Errorf("%v", e)
		}
		kit.Fails(t, holdfast.ErrLocked)(x.Lock(background, holdfast.Wait(5*time.Second)))
		want("DEBUG waiting, INFO not acquired after a long wait")
		kit.Unlock(t, h)
		s := c.NewUnleasedSemaphore("s", holdfast.Permits(1))
		kit.OK(t, s.Acquire(background, 1))
		want("DEBUG acquired")

		// Redis fails.
		refused := memdriver.Fault{Refuse: errors.New("connection refused")}
		kit.Silent(d, refused)
		_, err = c.NewMutex("y").TryLock(background)
		if e := want("WARN not acquired"); e["error"] != err.Error() {
			t.Errorf("%v", e)
		}
		d.SetFaults(nil)
		h = kit.Must(t)(x.Lock(background))
		want("DEBUG acquired")
		kit.Silent(d, refused)
		<-h.Context().Done()
		got, e := r.logged()
		if !strings.HasPrefix(got, "WARN renewal, ") || !strings.HasSuffix(got, ", ERROR lost") || e["owner"] != h.Owner().String() || e["held"] == nil {
			t.Errorf("%s, %v", got, e)
		}
		d.SetFaults(nil)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		want("")
		h = kit.Must(t)(c.NewMutex("z").Lock(background))
		kit.Away(d)
		if err := h.Unlock(); err == nil {
			t.Error("no error")
		}
		time.Sleep(time.Minute)
		want("DEBUG acquired, WARN ended, but not given back by Unlock, WARN failed in the background")
		d.SetFaults(nil)
		w.Do("DEL", "s")
		time.Sleep(3 * time.Minute)
	})
}

// A call that begins to wait says at once what for: a call that waits for itself may wait for ever.
func TestWaitSaysWhatFor(t *testing.T) {
	for name, open := range map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex": func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"fair":  func(c *holdfast.Client) holdfast.Locker { return c.NewFairMutex("x") },
		"write": func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("x") },
		"several": func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("{x}2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				x := open(c)
				wait := func() holdfast.Event {
					t.Helper()
					var l heard
					kit.Fails(t, holdfast.ErrLocked)(x.Lock(background, holdfast.Wait(time.Second), holdfast.WithHooks(l.hooks())))
					return l.event("wait")
				}
				h := kit.Must(t)(x.Lock(background))
				next := kit.Waiting(t, x, background)
				for _, e := range []holdfast.Event{wait(), wait()} { // behind another one
					if text := fmt.Sprint(e.Err); !errors.Is(e.Err, holdfast.ErrLocked) || !strings.HasSuffix(text, "; to nest in it, lock with the context of its hold") {
						t.Errorf("it waits for: %s", text)
					}
				}
				kit.Unlock(t, h)
				h = <-next
				if e := wait(); !errors.Is(e.Err, holdfast.ErrLocked) {
					t.Errorf("it waits for: %v", e.Err)
				}
				next = kit.Waiting(t, x, background)
				kit.Away(d)
				time.Sleep(15 * time.Second) // the one that waits has no answer
				var l heard
				_, err := x.Lock(background, holdfast.Wait(time.Second), holdfast.WithHooks(l.hooks()))
				var failed *holdfast.BackendError
				if e := l.event("wait"); !errors.As(e.Err, &failed) && name != "fair" { // each asks for itself
					t.Errorf("it waits for: %v, and then %v", e.Err, err)
				}
				d.SetFaults(nil)
				kit.Unlock(t, h)
				kit.Unlock(t, <-next)
			})
		})
	}
}

// A wait for permits that cannot end by itself is a warning; so is, once, that Permits has no effect.
func TestWaitForTooManyPermits(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var r records
		c, _ := w.Client(holdfast.WithHooks(holdfast.LogHooks(r.logger(slog.LevelInfo), time.Minute)))
		wantWarnings := func(want ...string) {
			t.Helper()
			time.Sleep(time.Microsecond) // the client's goroutines have told
			r.mu.Lock()
			defer r.mu.Unlock()
			for i, one := range r.all {
				if text := fmt.Sprint(one["level"], " ", one["msg"], ": ", one["error"]); i >= len(want) || !strings.HasPrefix(text, "WARN ") || !strings.HasSuffix(text, want[i]) {
					t.Errorf("logged %q", text)
				}
			}
			if len(r.all) < len(want) {
				t.Errorf("logged %d of %q", len(r.all), want)
			}
			r.all = nil
		}
		wait := func(s *holdfast.PermitSemaphore, n int) error {
			t.Helper()
			_, err := s.Acquire(background, n, holdfast.Wait(time.Second))
			kit.WantError(t, err, holdfast.ErrNoPermits)
			return err
		}
		s, other, u := c.NewPermitSemaphore("x"), c.NewPermitSemaphore("x", holdfast.Permits(10)), c.NewUnleasedSemaphore("y")
		wait(s, 1)
		kit.WantError(t, u.Acquire(background, 1, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		unset := ": nobody has set how many it has: make it with Permits(n), or call TrySetPermits"
		wantWarnings(unset, unset)

		kit.OK(t, s.SetPermits(background, 3))
		kit.Unlock(t, kit.Must(t)(other.Acquire(background, 3)))
		wantWarnings()
		wait(s, 5)
		wait(s, 5)
		wantWarnings("waiting: holdfast: semaphore \"x\": too few permits are available: 5 wanted, but it has 3 in all", "5 wanted, but it has 3 in all")
		h := kit.Must(t)(s.Acquire(background, 3))
		wait(s, 1)
		wantWarnings()
		differs := ": all 3 are held; this one was made with Permits(10), but 3 are set already: SetPermits changes that"
		if err := wait(other, 1); !strings.HasSuffix(err.Error(), differs) {
			t.Error(err)
		}
		wait(other, 1)
		wantWarnings(differs)
		kit.Unlock(t, h)
		kit.OK(t, s.SetPermits(background, 10))
		h = kit.Must(t)(s.Acquire(background, 10))
		if err := wait(other, 1); !strings.HasSuffix(err.Error(), ": all 10 are held") {
			t.Error(err)
		}
		wantWarnings()
		kit.Unlock(t, h)
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
		w.Do("DEL", "x", "y")
	})
}

// A log that does not take debugging gets nothing of what is in order, and no log gets
// anything; the lock passes on inside the process whatever is logged.
func TestLogHooksAreQuiet(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var r records
		for i, logger := range []*slog.Logger{r.logger(slog.LevelDebug), r.logger(slog.LevelInfo), nil} {
			handed := 0
			c, _ := w.Client(holdfast.WithHooks(holdfast.LogHooks(logger, time.Second)), holdfast.WithHooks(holdfast.Hooks{
				OnRelease: func(_ context.Context, e holdfast.Event) {
					if e.HandedOver {
						handed++
					}
				},
			}))
			h := kit.Must(t)(c.NewMutex("x").Lock(background))
			next := kit.Waiting(t, c.NewMutex("x"), background)
			kit.Unlock(t, h)
			kit.Unlock(t, <-next)
			if got, _ := r.logged(); (got != "") != (i == 0) {
				t.Errorf("log %d has %q", i, got)
			}
			if handed != 1 && !testclient.WithoutHandOver() {
				t.Errorf("handed over %d times", handed)
			}
		}
	})
}

// An owner is logged as it stands in Redis.
func TestOwnerInALog(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		owner := c.NewOwner()
		var text bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "owner", owner)
		if !strings.Contains(text.String(), "owner="+owner.String()+"\n") {
			t.Error(text.String())
		}
	})
}
