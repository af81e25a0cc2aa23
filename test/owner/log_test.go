package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// records is a log from some level up: what it has got since it was read last, a record a line.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *records) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.text.String()
	r.text.Reset()
	return kit.Lines(strings.TrimSpace(text))
}

func (r *records) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Each thing that happens is logged once, at its level, with what is known of it. A loss was logged when its hold ends. A wait for permits that cannot end by itself is a warning. A log that does
// not take a level gets nothing of it, and no log gets anything.
func TestLogHooks(t *testing.T) {
	redis := &holdfast.BackendError{Err: errors.New("gone")}
	lost := &holdfast.LostError{Reason: holdfast.LostTaken}
	few, tooFew, unset := &holdfast.PermitsError{Wanted: 3, Total: 3}, &holdfast.PermitsError{Wanted: 5, Total: 3}, &holdfast.PermitsError{Unset: true}
	of := func(level, what string, attrs ...string) string {
		return strings.Join(append([]string{"level=" + level, `msg="holdfast: ` + what + `"`, "lock=x", "kind=mutex"}, attrs...), " ")
	}
	failure := func(err error) string { return fmt.Sprintf("error=%q", err) }
	var r records
	hooks := holdfast.LogHooks(r.logger(slog.LevelDebug), 5*time.Second)
	quiet := holdfast.LogHooks(r.logger(slog.LevelError+1), 5*time.Second)
	if none := holdfast.LogHooks(nil, 0); none.OnWait != nil || none.OnLost != nil {
		t.Error("no log has hooks")
	}
	tell := func(h holdfast.Hooks, which string, e holdfast.Event) {
		map[string]func(context.Context, holdfast.Event){
			"wait": h.OnWait, "acquire": h.OnAcquire, "pass": h.OnPass, "refuse": h.OnRefuse, "renew": h.OnRenew, "lost": h.OnLost, "end": h.OnEnd, "error": h.OnError,
		}[which](background, e)
	}
	for i, row := range []struct {
		hook string
		e    holdfast.Event
		want string
	}{
		{"wait", holdfast.Event{Ahead: 2}, `level=DEBUG msg="holdfast: waiting" ahead=2 lock=x kind=mutex`},
		{"wait", holdfast.Event{Err: few}, `level=DEBUG msg="holdfast: waiting" ahead=0 lock=x kind=mutex ` + failure(few)},
		{"wait", holdfast.Event{Err: tooFew}, `level=WARN msg="holdfast: waiting" ahead=0 lock=x kind=mutex ` + failure(tooFew)},
		{"wait", holdfast.Event{Err: unset}, `level=WARN msg="holdfast: waiting" ahead=0 lock=x kind=mutex ` + failure(unset)},
		{"acquire", holdfast.Event{Token: 7}, of("DEBUG", "acquired", "token=7")},
		{"acquire", holdfast.Event{Waited: 4 * time.Second, HadToWait: true}, of("DEBUG", "acquired", "waited=4s")},
		{"acquire", holdfast.Event{Waited: 5 * time.Second, HadToWait: true}, of("INFO", "acquired after a long wait", "waited=5s")},
		{"pass", holdfast.Event{}, of("DEBUG", "acquired")},
		{"refuse", holdfast.Event{Err: holdfast.ErrLocked}, of("DEBUG", "not acquired", failure(holdfast.ErrLocked))},
		{"refuse", holdfast.Event{Err: holdfast.ErrNotReplicated}, of("WARN", "not acquired", failure(holdfast.ErrNotReplicated))},
		{"refuse", holdfast.Event{Err: redis}, of("WARN", "not acquired", failure(redis))},
		{"renew", holdfast.Event{Held: time.Second}, of("DEBUG", "renewal", "held=1s")},
		{"renew", holdfast.Event{Err: redis}, of("WARN", "renewal", failure(redis))},
		{"lost", holdfast.Event{Err: lost}, of("ERROR", "lost", failure(lost))},
		{"end", holdfast.Event{Err: lost}, ""},
		{"end", holdfast.Event{HandedOver: true}, of("DEBUG", "ended", "handed_over=true")},
		{"end", holdfast.Event{Err: redis}, of("WARN", "ended, but not given back by Unlock", failure(redis))},
		{"error", holdfast.Event{Err: redis}, of("WARN", "failed in the background", failure(redis))},
	} {
		row.e.Name, row.e.Kind = "x", "mutex"
		tell(quiet, row.hook, row.e)
		tell(hooks, row.hook, row.e)
		if got := strings.Join(r.lines(), "\n"); got != row.want {
			t.Errorf("%d: logged\n%s\nwant\n%s", i, got, row.want)
		}
	}
}

// A log does not keep the lock from passing on inside the process. It says whose a lost hold was, as its owner stands in Redis.
func TestLogHooksOfALock(t *testing.T) {
	var r records
	var l heard
	fake(t, func(s *stage) {
		h := s.lock(background)
		next := s.begin(background)
		s.Unlock(h)
		h = s.got(next)
		if !l.event("release").HandedOver && !testclient.WithoutHandOver() {
			s.Error("it was not handed over")
		}
		kit.Force(s.T, s.theirs)
		<-h.Context().Done()
		s.Lost(h)
		l.took()
		if lines := strings.Join(r.lines(), "\n"); !strings.Contains(lines, `level=ERROR msg="holdfast: lost" owner=`+h.Owner().String()+" ") {
			s.Errorf("logged %s", lines)
		}
	}, holdfast.WithHooks(holdfast.LogHooks(r.logger(slog.LevelDebug), time.Second)), holdfast.WithHooks(l.hooks()))
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
			fake(t, func(s *stage) {
				x := open(s.c)
				waitsFor := func() error {
					var l heard
					_, err := x.Lock(background, holdfast.Wait(time.Second), holdfast.WithHooks(l.hooks()))
					if err == nil {
						s.Error("no error")
					}
					return l.event("wait").Err
				}
				h := s.Must(x.Lock(background))
				next := kit.Waiting(s.T, x, background)
				for range 2 { // behind another one
					if err := waitsFor(); !errors.Is(err, holdfast.ErrLocked) || !strings.HasSuffix(err.Error(), "; to nest in it, lock with the context of its hold") {
						s.Errorf("it waits for: %v", err)
					}
				}
				s.Unlock(h)
				h = <-next
				kit.WantError(s.T, waitsFor(), holdfast.ErrLocked)
				next = kit.Waiting(s.T, x, background)
				kit.Away(s.d)
				time.Sleep(15 * time.Second) // the one that waits has no answer
				var failed *holdfast.BackendError
				if err := waitsFor(); !errors.As(err, &failed) && name != "fair" { // each asks for itself
					s.Errorf("it waits for: %v", err)
				}
				s.d.SetFaults(nil)
				s.Unlock(h)
				s.Unlock(<-next)
			})
		})
	}
}
