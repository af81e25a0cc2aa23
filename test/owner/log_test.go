package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
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

var (
	unreachable = &holdfast.BackendError{Err: errors.New("gone")}
	errNoRight  = &holdfast.BackendError{Err: driver.ServerError("NOPERM no", errors.New("NOPERM no"))}
)

func tell(h holdfast.Hooks, which string, e holdfast.Event) {
	map[string]func(context.Context, holdfast.Event){
		"wait": h.OnWait, "acquire": h.OnAcquire, "pass": h.OnPass, "refuse": h.OnRefuse, "renew": h.OnRenew, "release": h.OnRelease,
		"lost": h.OnLost, "end": h.OnEnd, "error": h.OnError,
	}[which](background, e)
}

// Each thing that happens is logged once, at its level, with what is known of it. A loss was logged when its hold ends. A wait for permits that cannot end by itself is a warning. A log that does
// not take a level gets nothing of it, and no log gets anything.
func TestLogHooks(t *testing.T) {
	redis := unreachable
	lost := &holdfast.LostError{Reason: holdfast.LostTaken}
	few, tooFew, unset := &holdfast.PermitsError{Wanted: 3, Total: 3}, &holdfast.PermitsError{Wanted: 5, Total: 3}, &holdfast.PermitsError{Unset: true}
	of := func(level, what string, attrs ...string) string {
		return strings.Join(append([]string{"level=" + level, `msg="holdfast: ` + what + `"`, "lock=x", "kind=mutex"}, attrs...), " ")
	}
	failure := func(err error) string { return fmt.Sprintf("error=%q", err) }
	outage := of("WARN", "Redis outage", failure(redis))
	var r records
	quiet := holdfast.LogHooks(r.logger(slog.LevelError+1), 5*time.Second)
	if none := holdfast.LogHooks(nil, 0); none.OnWait != nil || none.OnLost != nil {
		t.Error("no log has hooks")
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
		{"refuse", holdfast.Event{Err: redis}, outage + "\n" + of("DEBUG", "not acquired", failure(redis))},
		{"renew", holdfast.Event{Held: time.Second}, of("DEBUG", "renewal", "held=1s")},
		{"renew", holdfast.Event{Err: redis}, outage + "\n" + of("DEBUG", "renewal", failure(redis))},
		{"renew", holdfast.Event{Err: errNoRight}, of("WARN", "renewal", failure(errNoRight))},
		{"wait", holdfast.Event{Err: redis}, `level=DEBUG msg="holdfast: waiting" ahead=0 lock=x kind=mutex ` + failure(redis)},
		{"release", holdfast.Event{}, ""},
		{"lost", holdfast.Event{Err: lost}, of("ERROR", "lost", failure(lost))},
		{"end", holdfast.Event{Err: lost}, ""},
		{"end", holdfast.Event{HandedOver: true}, of("DEBUG", "ended", "handed_over=true")},
		{"end", holdfast.Event{Err: redis}, outage + "\n" + of("DEBUG", "ended, but not given back by Unlock", failure(redis))},
		{"error", holdfast.Event{Err: redis}, outage + "\n" + of("DEBUG", "failed in the background", failure(redis))},
		{"error", holdfast.Event{Err: holdfast.ErrLocked}, of("WARN", "failed in the background", failure(holdfast.ErrLocked))},
		{"error", holdfast.Event{Err: tooFew}, of("WARN", "failed in the background", failure(tooFew))},
	} {
		row.e.Name, row.e.Kind = "x", "mutex"
		tell(quiet, row.hook, row.e)
		tell(holdfast.LogHooks(r.logger(slog.LevelDebug), 5*time.Second), row.hook, row.e)
		if got := strings.Join(r.lines(), "\n"); got != row.want {
			t.Errorf("%d: logged\n%s\nwant\n%s", i, got, row.want)
		}
	}
}

// warned returns the messages that a log has got since it was read last, sorted, with how often each comes.
func (r *records) warned() string {
	counts := map[string]int{}
	for _, line := range r.lines() {
		_, text, _ := strings.Cut(line, `msg="holdfast: `)
		text, _, _ = strings.Cut(text, `"`)
		counts[text]++
	}
	var all []string
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[text], text))
	}
	return strings.Join(all, ", ")
}

func (r *records) want(t *testing.T, want string) {
	t.Helper()
	if got := r.warned(); got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// outageRun is an outage as 500 holds and 50 waiters of one client see it, and the log of that client from level Info up.
func outageRun(t *testing.T, f func(s *stage, log *records, holds []*holdfast.Hold)) {
	t.Helper()
	var log records
	fake(t, func(s *stage) {
		var holds []*holdfast.Hold
		for i := range 500 {
			holds = append(holds, s.Must(s.c.NewMutex(fmt.Sprint("held:", i)).Lock(background)))
		}
		ctx, cancel := context.WithCancel(background)
		var waiters sync.WaitGroup
		for i := range 50 {
			theirs := s.Must(s.other.NewMutex(fmt.Sprint("wanted:", i)).Lock(background))
			waiters.Go(func() { _, _ = s.c.NewMutex(theirs.Name()).Lock(ctx) })
			defer s.Unlock(theirs)
		}
		time.Sleep(2 * time.Second)
		log.want(s.T, "")
		kit.Away(s.d)
		f(s, &log, holds)
		cancel()
		waiters.Wait()
	}, holdfast.WithHooks(holdfast.LogHooks(log.logger(slog.LevelInfo), time.Hour)))
}

// However many locks an outage hits, the log has one warning when it begins and one when it is over, within seconds.
func TestLogHooksOfAnOutage(t *testing.T) {
	outageRun(t, func(s *stage, log *records, holds []*holdfast.Hold) {
		time.Sleep(12 * time.Second) // the first renewals are due at 10 s
		log.want(s.T, "1 Redis outage")
		time.Sleep(6 * time.Second)
		log.want(s.T, "")
		s.d.SetFaults(nil)
		time.Sleep(4 * time.Second)
		lines := log.lines()
		if len(lines) != 1 {
			t.Fatalf("logged %q", lines)
		}
		var lasted string
		var failures, lost int
		if n, err := fmt.Sscanf(lines[0], `level=WARN msg="holdfast: Redis outage over" lasted=%s failures=%d lost=%d`, &lasted, &failures, &lost); n != 3 {
			t.Errorf("%q: %v", lines[0], err)
		}
		if took, err := time.ParseDuration(lasted); err != nil || took < 5*time.Second || took > 20*time.Second || failures < 550 || lost != 0 {
			t.Errorf("%q", lines[0])
		}
		time.Sleep(time.Minute)
		log.want(s.T, "")
		s.Unlock(holds...)
	})
}

// Each loss is a separate error record, even in an outage.
func TestLogHooksOfLossesInAnOutage(t *testing.T) {
	outageRun(t, func(s *stage, log *records, holds []*holdfast.Hold) {
		time.Sleep(40 * time.Second)
		log.want(s.T, "1 Redis outage, 500 lost")
		s.d.SetFaults(nil)
		s.Unlock(s.lock(background))
		if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `"holdfast: Redis outage over"`) || !strings.Contains(lines[0], " lost=500") {
			t.Errorf("logged %q", lines)
		}
		for _, h := range holds {
			s.Lost(h)
		}
		log.want(s.T, "")
	})
}

// Any reply ends an outage, whatever it says. What the client knows without Redis does not.
func TestLogHooksOutageEnds(t *testing.T) {
	locked := &holdfast.LockedError{Name: "x"}
	for i, row := range []struct {
		hook string
		e    holdfast.Event
		ends bool
	}{
		{"acquire", holdfast.Event{}, true},
		{"acquire", holdfast.Event{HandedOver: true}, false},
		{"pass", holdfast.Event{}, true},
		{"renew", holdfast.Event{}, true},
		{"renew", holdfast.Event{Err: unreachable}, false},
		{"release", holdfast.Event{}, true},
		{"release", holdfast.Event{HandedOver: true}, false},
		{"refuse", holdfast.Event{Err: locked}, true},
		{"refuse", holdfast.Event{Err: locked, HadToWait: true}, false},
		{"refuse", holdfast.Event{Err: holdfast.ErrNotReplicated}, true},
		{"refuse", holdfast.Event{Err: errNoRight}, true},
		{"refuse", holdfast.Event{Err: &holdfast.BackendError{Err: kit.Refusal(true)}}, true}, // a full memory
		{"refuse", holdfast.Event{Err: &holdfast.BackendError{Err: driver.ServerError("LOADING dataset", errors.New("LOADING dataset"))}}, false},
		{"refuse", holdfast.Event{Err: holdfast.ErrInvalid}, false},
		{"refuse", holdfast.Event{Err: context.Canceled}, false},
		{"wait", holdfast.Event{Err: locked}, false},
		{"lost", holdfast.Event{Err: &holdfast.LostError{Reason: holdfast.LostTaken}}, true},
		{"lost", holdfast.Event{Err: &holdfast.LostError{Reason: holdfast.LostUnanswered, Err: unreachable}}, false},
		{"end", holdfast.Event{}, false}, // after Detach
		{"end", holdfast.Event{Err: holdfast.ErrClosed}, false},
		{"end", holdfast.Event{Err: errNoRight}, true},
	} {
		var r records
		hooks := holdfast.LogHooks(r.logger(slog.LevelDebug), time.Second)
		tell(hooks, "renew", holdfast.Event{Err: unreachable})
		r.lines()
		tell(hooks, row.hook, row.e)
		if got := strings.Contains(strings.Join(r.lines(), ""), "Redis outage over"); got != row.ends {
			t.Errorf("%d: %s of %v: the outage is over: %v", i, row.hook, row.e.Err, got)
		}
	}
}

// A loss, or a call that a loss has ended, begins no outage: the error in it is an old one.
func TestLogHooksOldErrors(t *testing.T) {
	var r records
	hooks := holdfast.LogHooks(r.logger(slog.LevelInfo), time.Second)
	lost := &holdfast.LostError{Reason: holdfast.LostUnanswered, Err: unreachable}
	tell(hooks, "lost", holdfast.Event{Err: lost})
	tell(hooks, "refuse", holdfast.Event{Err: lost})
	tell(hooks, "end", holdfast.Event{Err: lost})
	tell(hooks, "wait", holdfast.Event{Err: unreachable})
	r.want(t, "1 lost")
}

// A call whose deadline was shorter than the network is slow says nothing of Redis.
func TestLogHooksOfAShortDeadline(t *testing.T) {
	var log records
	fake(t, func(s *stage) {
		kit.All(s.d, memdriver.Fault{DelayReply: 20 * time.Millisecond})
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		defer cancel()
		kit.Fails(s.T, context.DeadlineExceeded)(s.c.NewMutex("short").Lock(ctx))
		log.want(s.T, "")
		s.d.SetFaults(nil)
	}, holdfast.WithHooks(holdfast.LogHooks(log.logger(slog.LevelInfo), time.Hour)))
}

// A call that was sent during an outage may fail after its end: that begins no other outage. One that fails later than the client's timeout does.
func TestLogHooksStragglers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var r records
		hooks := holdfast.LogHooks(r.logger(slog.LevelInfo), time.Second)
		for range 3 {
			tell(hooks, "renew", holdfast.Event{Err: unreachable})
			time.Sleep(time.Second)
			tell(hooks, "renew", holdfast.Event{})
			r.want(t, "1 Redis outage, 1 Redis outage over")
			for range 50 {
				tell(hooks, "refuse", holdfast.Event{Err: unreachable})
				tell(hooks, "renew", holdfast.Event{})
				time.Sleep(holdfast.DefaultTimeout / 50)
			}
			r.want(t, "")
		}
	})
}

// halves are a cluster of two nodes: one has the even slots, the other the odd ones. Behind them is one server.
type halves struct {
	*memdriver.Driver

	odd *memdriver.Driver
}

// Eval calls the node that has the slot.
func (h halves) Eval(ctx context.Context, call driver.Call) (any, error) {
	if script.Slot(call.Keys[0])%2 == 1 {
		return h.odd.Eval(ctx, call)
	}
	return h.Driver.Eval(ctx, call)
}

func (halves) Slotted() bool { return true }

// While one node of a cluster is away, the locks on the others go on: that does not end the outage. It is over soon after some of the slots that
// failed have been answered; or, if none is asked again, when nothing has failed for two minutes.
func TestLogHooksOfOneNode(t *testing.T) {
	fake(t, func(s *stage) {
		var log records
		nodes := halves{s.Server.Driver(), s.Server.Driver()}
		c, err := testclient.New(nodes, holdfast.WithoutIdentity(), holdfast.WithHooks(holdfast.LogHooks(log.logger(slog.LevelWarn), time.Second)))
		kit.OK(s.T, err)
		s.Cleanup(func() { kit.OK(s.T, c.Close()) })
		elsewhere := "elsewhere"
		for script.Slot(elsewhere)%2 == 1 {
			elsewhere += "!"
		}
		var odd, all []*holdfast.Hold
		for i := range 100 {
			name := fmt.Sprint("held:", i)
			all = append(all, s.Must(c.NewMutex(name).Lock(background, holdfast.RenewedLease(time.Minute))))
			if script.Slot(name)%2 == 1 {
				odd = append(odd, all[i])
			}
		}
		kit.Away(nodes.odd)
		others := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				s.Unlock(s.Must(c.NewMutex(elsewhere).Lock(background)))
			}
		}
		once := elsewhere + "?"
		for script.Slot(once)%2 == 0 {
			once += "?"
		}
		if _, err := c.NewMutex(once).TryLock(background); err == nil { // and never again
			s.Error("no error")
		}
		others(40)
		log.want(s.T, "1 Redis outage")
		nodes.odd.SetFaults(nil)
		others(3)
		log.want(s.T, "")
		others(6)
		log.want(s.T, "1 Redis outage over")
		s.Unlock(all...)

		// A lock that failed once, and is not asked for again.
		time.Sleep(holdfast.DefaultTimeout)
		kit.Away(nodes.odd)
		if _, err := c.NewMutex(odd[0].Name()).TryLock(background); err == nil {
			s.Error("no error")
		}
		nodes.odd.SetFaults(nil)
		others(115)
		log.want(s.T, "1 Redis outage")
		others(5)
		lines := log.lines()
		if len(lines) != 1 || !strings.Contains(lines[0], `"holdfast: Redis outage over" lasted=1s `) {
			s.Errorf("logged %q", lines)
		}
	})
}

// Each client has its own outages, even if clients share hooks, or use locks of one name.
func TestLogHooksOfSeveralClients(t *testing.T) {
	var log records
	hooks := holdfast.WithHooks(holdfast.LogHooks(log.logger(slog.LevelWarn), time.Second))
	fake(t, func(s *stage) {
		second, d := s.Client(hooks)
		try := func(c *holdfast.Client, name string) {
			if h, err := c.NewMutex(name).TryLock(background); err == nil {
				s.Unlock(h)
			}
		}
		kit.Away(s.d)
		for range 10 {
			try(s.c, "x")
			try(second, "x")
		}
		log.want(s.T, "1 Redis outage")
		kit.Away(d)
		try(second, "y")
		log.want(s.T, "1 Redis outage")
		s.d.SetFaults(nil)
		try(s.c, "z")
		log.want(s.T, "1 Redis outage over")
		d.SetFaults(nil)
		try(second, "z")
		log.want(s.T, "1 Redis outage over")
	}, hooks)
}

// A call that Redis refuses for good is no outage. The log has one warning a minute for each client and error code, with how many more there were.
func TestLogHooksOfRefusals(t *testing.T) {
	var log records
	fake(t, func(s *stage) {
		var holds []*holdfast.Hold
		for i := range 500 {
			holds = append(holds, s.Must(s.c.NewMutex(fmt.Sprint("held:", i)).Lock(background)))
		}
		kit.Every(s.d, "renew", memdriver.Fault{Refuse: driver.ServerError("NOPERM no", errors.New("NOPERM no"))})
		time.Sleep(11 * time.Second)
		log.want(s.T, "1 renewal")
		time.Sleep(time.Minute)
		losses := strings.Count(log.warned(), "lost")
		log.want(s.T, "")
		for _, h := range holds {
			s.Lost(h)
		}
		if losses == 0 {
			s.Error("nothing was lost")
		}
		hooks := holdfast.LogHooks(log.logger(slog.LevelWarn), time.Second)
		for range 3 {
			for range 100 {
				tell(hooks, "refuse", holdfast.Event{Name: "x", Kind: "mutex", Err: errNoRight})
				tell(hooks, "refuse", holdfast.Event{Name: "x", Kind: "mutex", Err: holdfast.ErrNotReplicated})
			}
			time.Sleep(time.Minute)
		}
		lines := log.lines()
		if len(lines) != 6 || strings.Contains(lines[1], "more=") || !strings.Contains(lines[5], "more=99") {
			s.Errorf("logged %q", lines)
		}
	}, holdfast.WithHooks(holdfast.LogHooks(log.logger(slog.LevelWarn), time.Second)))
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
