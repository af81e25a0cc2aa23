package call

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/tasks"
)

// server is a driver that answers attempt i with answers[i], and all later ones with
// the last. It lets time pass as a network does.
type server struct {
	answers []answer
	delay   time.Duration

	mu    sync.Mutex
	calls []driver.Call
}

type answer struct {
	code   script.Code
	err    error
	silent bool // until the context ends, and then err, if there is one
}

func (s *server) Eval(ctx context.Context, c driver.Call) (any, error) {
	s.mu.Lock()
	a := s.answers[min(len(s.calls), len(s.answers)-1)]
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, driver.ConnectionError(ctx.Err(), false)
	}
	if a.silent {
		<-ctx.Done()
		return nil, cmp.Or[error](a.err, driver.ConnectionError(ctx.Err(), false))
	}
	if a.err != nil {
		return nil, a.err
	}
	return []any{int64(a.code), time.Now().UnixMilli()}, nil
}

func (s *server) EvalReplicated(ctx context.Context, c driver.Call, _ int, _ time.Duration) (any, int, error) {
	reply, err := s.Eval(ctx, c)
	return reply, 1, err
}

func (s *server) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (*server) Check() error                                   { return nil }
func (*server) Slotted() bool                                  { return false }
func (*server) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }
func (*server) Listen(func(driver.Event)) driver.Listener      { return nil }

var request = script.Request{Script: driver.NewScript("x", "return 1"), Keys: []string{"k"}, Channel: "c", Args: []string{"a", "b"}}

// calling runs f with a caller on s, whose timeout is 3 s.
func calling(t *testing.T, s *server, f func(t *testing.T, c *Caller)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		var group tasks.Group
		life, end := context.WithCancel(context.Background())
		f(t, New(Config{Driver: s, Tasks: &group, Life: life, Closing: life, Timeout: 3 * time.Second}))
		end()
		if err := group.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

var (
	errAway    = driver.ConnectionError(errors.New("away"), true)
	errRefused = driver.ServerError("ERR no", errors.New("ERR no"))
	errMoved   = driver.ServerError("MOVED 1 a:1", errors.New("MOVED 1 a:1"))
	errLoading = driver.ServerError("LOADING", errors.New("LOADING"))
)

func TestFrame(t *testing.T) {
	s := &server{answers: []answer{{code: script.Done}}}
	calling(t, s, func(t *testing.T, c *Caller) {
		now := time.Now().UnixMilli()
		r := c.Do(t.Context(), request, nil)
		if !r.Has(script.Done) || len(r.Unknown) > 0 || r.Acknowledged > 0 {
			t.Errorf("%+v", r)
		}
		args := s.calls[0].Args
		if limit, err := strconv.ParseInt(args[0], 10, 64); err != nil || limit <= now || limit > now+2000 {
			t.Errorf("limit %q at %d", args[0], now)
		}
		if !slices.Equal(args[1:], []string{"c", "PUBLISH", "a", "b"}) || !slices.Equal(s.calls[0].Keys, request.Keys) {
			t.Errorf("%q, %q", s.calls[0].Keys, args)
		}
	})
}

// What comes of a call, how often it is sent, and how many attempts are unknown.
func TestDo(t *testing.T) {
	for name, row := range map[string]struct {
		answers []answer
		want    script.Code
		err     error
		sent    int // 0: more than one
		unknown int // -1: some
	}{
		"answered":                 {[]answer{{code: script.Refused}}, script.Refused, nil, 1, 0},
		"away once":                {[]answer{{err: errAway}, {code: script.Done}}, script.Done, nil, 2, 0},
		"silent once":              {[]answer{{silent: true}, {code: script.Done}}, script.Done, nil, 2, 1},
		"always silent":            {[]answer{{silent: true}}, 0, ErrNoAnswer, 3, 3},
		"always away":              {[]answer{{err: errAway}}, 0, errAway, 0, 0},
		"refused for good":         {[]answer{{err: errRefused}}, 0, errRefused, 1, 1},
		"a node of a cluster":      {[]answer{{err: errMoved}}, 0, errMoved, 1, 0},
		"our guess was behind":     {[]answer{{code: script.Late}, {code: script.Done}}, script.Done, nil, 2, 0},
		"a clock gone wild":        {[]answer{{code: script.Late}}, 0, ErrLate, lateReplies + 1, 0},
		"refused, and then silent": {[]answer{{err: errLoading}, {silent: true}}, 0, ErrNoAnswer, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answers: row.answers}
			calling(t, s, func(t *testing.T, c *Caller) {
				start := time.Now()
				r := c.Do(t.Context(), request, nil)
				if !errors.Is(r.Err, row.err) || r.Err == nil && r.Reply.Code != row.want {
					t.Errorf("%v, %v", r.Reply.Code, r.Err)
				}
				if n := s.sent(); n != row.sent && (row.sent > 0 || n < 2) {
					t.Errorf("%d sent", n)
				}
				if n := len(r.Unknown); n != row.unknown && (row.unknown >= 0 || n == 0) {
					t.Errorf("%d unknown", n)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A server that is so slow that each attempt comes late is not one whose clock jumps. The last
// answer comes when the time is over: which of two timers is first is chance.
func TestLateBecauseSlow(t *testing.T) {
	for range 50 {
		calling(t, &server{answers: []answer{{code: script.Late}}, delay: 750 * time.Millisecond}, func(t *testing.T, c *Caller) {
			if r := c.Do(t.Context(), request, nil); !errors.Is(r.Err, ErrNoAnswer) {
				t.Error(r.Err)
			}
		})
	}
}

// An attempt that comes too late says less than a refusal before it.
func TestWhyBeforeALateAttempt(t *testing.T) {
	for range 50 {
		s := &server{answers: []answer{{err: errLoading}, {code: script.Late}}, delay: 750 * time.Millisecond}
		calling(t, s, func(t *testing.T, c *Caller) {
			r := c.Do(t.Context(), request, nil)
			if !errors.Is(r.Err, ErrNoAnswer) || !errors.Is(r.Why(), errLoading) {
				t.Errorf("%v, because of %v", r.Err, r.Why())
			}
		})
	}
}

// Silence says less than a refusal before it, be it noticed by the attempt's context or by a connection that has its deadline.
func TestWhy(t *testing.T) {
	silent := &driver.Error{Err: &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Transient: true, MayHaveRun: true}
	for want, last := range map[error]answer{ErrNoAnswer: {silent: true}, os.ErrDeadlineExceeded: {err: silent}} {
		calling(t, &server{answers: []answer{{err: errLoading}, last}}, func(t *testing.T, c *Caller) {
			r := c.Do(t.Context(), request, nil)
			if !errors.Is(r.Err, want) || !errors.Is(r.Why(), errLoading) {
				t.Errorf("%v, because of %v", r.Err, r.Why())
			}
		})
	}
}

// TestReasonOfAnAttemptThatIsGivenUp: when the context ends, the driver reports another reason, such as the last error of the dials that
// the client repeated.
func TestReasonOfAnAttemptThatIsGivenUp(t *testing.T) {
	s := &server{answers: []answer{{silent: true, err: errAway}}}
	calling(t, s, func(t *testing.T, c *Caller) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := c.Do(ctx, request, nil)
		if !errors.Is(r.Err, context.DeadlineExceeded) || !errors.Is(r.Unanswered(time.Hour), errAway) {
			t.Errorf("%v, because of %v", r.Err, r.Unanswered(time.Hour))
		}
	})
}

// TestUnanswered: without a reason, only time tells a slow network from an outage.
func TestUnanswered(t *testing.T) {
	calling(t, &server{answers: []answer{{silent: true}}}, func(t *testing.T, c *Caller) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r := c.Do(ctx, request, nil)
		if r.Unanswered(100*time.Millisecond) != ErrNoAnswer || r.Unanswered(101*time.Millisecond) != nil { //nolint:errorlint // itself
			t.Errorf("%v", r.Unanswered(100*time.Millisecond))
		}
	})
}

// A cancelled call waits for a slow network before it blames Redis; a deadline blames Redis for the first request at once.
func TestPatience(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for what, c := range map[string]struct {
		ctx   context.Context
		first bool
		want  time.Duration
	}{
		"cancelled amid the first": {cancelled, true, 103 * time.Millisecond}, "cancelled amid a later one": {cancelled, false, 103 * time.Millisecond},
		"expired amid the first": {expired, true, 0}, "expired amid a later one": {expired, false, 103 * time.Millisecond},
		"a bound ended the first": {t.Context(), true, 0},
	} {
		if got := Patience(c.ctx, c.first, 3*time.Millisecond); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// A call that is cancelled ends at once. Its attempt is over after its limit, and not
// before: Outlast waits for that, unless the answer comes earlier, and somebody is there
// to hear it.
func TestCancelled(t *testing.T) {
	do := func(c *Caller, ctx context.Context, r script.Request) Result { return c.Do(ctx, r, nil) }
	const over = time.Second + 500*time.Millisecond // a third of the timeout, and twice the slack
	for _, row := range []struct {
		do    func(*Caller, context.Context, script.Request) Result
		delay time.Duration // of the answer
		heard bool
		want  time.Duration // when it is over
	}{
		{do, 500 * time.Millisecond, false, over},
		{do, time.Hour, false, over},
		{(*Caller).DoApart, 500 * time.Millisecond, true, 500 * time.Millisecond},
		{(*Caller).DoApart, time.Hour, true, over},
	} {
		delay := row.delay
		calling(t, &server{answers: []answer{{code: script.Done}}, delay: delay}, func(t *testing.T, c *Caller) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			r := row.do(c, ctx, request)
			if took := time.Since(start); !errors.Is(r.Err, context.DeadlineExceeded) || took != 100*time.Millisecond {
				t.Errorf("%v after %v", r.Err, took)
			}
			if len(r.Unknown) != 1 || r.Unknown[0].Pending() != row.heard {
				t.Fatalf("%+v", r)
			}
			c.Outlast(t.Context(), r.Unknown)
			if took, want := time.Since(start), row.want; took < want || took > want+time.Second {
				t.Errorf("over after %v, and not %v", took, want)
			}
		})
	}
}

// The context of an attempt ends once, and says the same from then on.
func TestBoundSaysOneThing(t *testing.T) {
	for range 300 {
		caller, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(300))*time.Microsecond)
		var s bounds
		b := &bound{caller: caller, due: time.Now().Add(time.Hour)}
		s.begin(b)
		if rand.IntN(2) == 0 {
			b.Done()
		}
		for b.Err() == nil {
		}
		first := b.Err()
		select {
		case <-b.Done():
		default:
			t.Fatal("Err is set, and Done is open")
		}
		if why := s.finish(b); !errors.Is(first, context.DeadlineExceeded) || !errors.Is(why, first) || b.Err() != first { //nolint:errorlint // the same
			t.Fatalf("%v, then %v; finished with %v", first, b.Err(), why)
		}
		cancel()
	}
}

// After Tasks has ended, nothing is sent.
func TestClosed(t *testing.T) {
	s := &server{answers: []answer{{code: script.Done}}}
	calling(t, s, func(t *testing.T, c *Caller) {
		if err := c.config.Tasks.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := c.Do(t.Context(), request, nil); !errors.Is(r.Err, lockerr.Closed) || len(r.Unknown) > 0 || s.sent() > 0 {
			t.Errorf("%+v, %d sent", r, s.sent())
		}
	})
}

// TestADriversErrorThatWrapsErrClosed: another client's ErrClosed is not ours, and says nothing of whether the script has run.
func TestADriversErrorThatWrapsErrClosed(t *testing.T) {
	s := &server{answers: []answer{{err: driver.ConnectionError(lockerr.Closed, false)}}}
	calling(t, s, func(t *testing.T, c *Caller) {
		if r := c.Once(t.Context(), request, time.Second); len(r.Unknown) != 1 {
			t.Errorf("it is taken not to have run: %+v", r)
		}
	})
}

// slowPublish is a driver that takes its time to say how releases are announced.
type slowPublish struct {
	server

	asked atomic.Int32
}

func (s *slowPublish) PublishCommand(context.Context) (string, error) {
	s.asked.Add(1)
	time.Sleep(9 * time.Second)
	return "PUBLISH", nil
}

// Nobody waits longer than he would for a driver that does not heed the context, and
// nothing is sent; the driver is asked once for all.
func TestSlowPublishCommand(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &slowPublish{server: server{answers: []answer{{code: script.Done}}}}
		var group tasks.Group
		c := New(Config{Driver: s, Tasks: &group, Life: t.Context(), Closing: t.Context(), Timeout: 3 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		r := c.Do(ctx, request, nil)
		if took := time.Since(start); !errors.Is(r.Err, context.DeadlineExceeded) || len(r.Unknown) > 0 || took != 100*time.Millisecond {
			t.Errorf("%+v after %v", r, took)
		}
		if r = c.Do(t.Context(), request, nil); r.Err == nil {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Second)
		if r = c.Do(t.Context(), request, nil); !r.Has(script.Done) || s.asked.Load() != 1 || s.sent() != 1 {
			t.Errorf("%+v, asked %d times, %d sent", r, s.asked.Load(), s.sent())
		}
		if err := group.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowReader is a driver that reads each answer after a while, even if its caller has left; the last one is for all further calls.
type slowReader struct {
	server

	reads []time.Duration
	codes []script.Code // of the first answers; the others are Done
}

func (s *slowReader) Eval(ctx context.Context, c driver.Call) (any, error) {
	s.mu.Lock()
	n := len(s.calls)
	read, code := s.reads[min(n, len(s.reads)-1)], script.Done
	if n < len(s.codes) {
		code = s.codes[n]
	}
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	return driver.Run(ctx, c, func() (any, error) {
		time.Sleep(read)
		return []any{int64(code), time.Now().UnixMilli()}, nil
	})
}

// readingSlowly runs f with a caller whose timeout is 3 s, so an attempt has one.
func readingSlowly(t *testing.T, f func(t *testing.T, c *Caller, s *slowReader), reads ...time.Duration) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s := &slowReader{reads: reads}
		var group tasks.Group
		f(t, New(Config{Driver: s, Tasks: &group, Life: t.Context(), Closing: t.Context(), Timeout: 3 * time.Second}), s)
		time.Sleep(time.Hour) // until all have been read
		if err := group.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A late answer counts, from the time at which its attempt was sent, even if another attempt is under way when it is read.
func TestAnswerThatIsReadLate(t *testing.T) {
	do := map[string]func(ctx context.Context, c *Caller) Result{
		"Do": func(ctx context.Context, c *Caller) Result { return c.Do(ctx, request, nil) },
		"DoBriefly": func(ctx context.Context, c *Caller) Result {
			return c.DoBriefly(ctx, time.Second, func() context.Context { return ctx }, request, nil)
		},
	}
	for name, do := range do {
		t.Run(name, func(t *testing.T) {
			readingSlowly(t, func(t *testing.T, c *Caller, s *slowReader) {
				start, began := mono.Now(), time.Now()
				r := do(t.Context(), c)
				if !r.Has(script.Done) || r.Sent != start || len(r.Unknown) != 1 || s.sent() != 2 || r.LastFailure != nil {
					t.Errorf("%+v, sent %v after the start; %d sent", r, r.Sent.Sub(start), s.sent())
				}
				if took := time.Since(began); took > 2*time.Second+time.Millisecond {
					t.Errorf("after %v", took)
				}
			}, 1500*time.Millisecond, time.Minute)
		})
	}
}

// A refusal is not the last word while another attempt of a call without an owner may have its effect, even if it is read late, beside
// the request that makes it the last word. That another has had its effect is.
func TestRefusalIsTheLastWord(t *testing.T) {
	once := request
	once.Once = true
	for name, row := range map[string]struct {
		second time.Duration // when the second answer is read, which says that the call had its effect
		err    error
	}{
		"the effect is not known": {time.Minute, ErrNoAnswer}, "the effect is known": {1500 * time.Millisecond, nil},
	} {
		t.Run(name, func(t *testing.T) {
			readingSlowly(t, func(t *testing.T, c *Caller, s *slowReader) {
				s.codes = []script.Code{script.Refused, script.Done, script.Refused}
				if r := c.Do(t.Context(), once, nil); !errors.Is(r.Err, row.err) || r.Err == nil && !r.Has(script.Done) || s.sent() != 4 {
					t.Errorf("%+v; %d sent", r, s.sent())
				}
			}, 2500*time.Millisecond, row.second, 0, time.Hour)
		})
	}
}

// WhenAnswered reports the answer to an attempt that was given up once, whether it comes before or after the call; other attempts
// it does not report.
func TestWhenAnswered(t *testing.T) {
	for name, row := range map[string]struct {
		read, asks time.Duration // when
		told       int32
	}{
		"later": {5 * time.Second, time.Second, 1}, "before": {2 * time.Second, 4 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			readingSlowly(t, func(t *testing.T, c *Caller, _ *slowReader) {
				start := mono.Now()
				var told atomic.Int32
				r := c.Once(t.Context(), request, time.Second)
				if !errors.Is(r.Err, ErrNoAnswer) || len(r.Unknown) != 1 {
					t.Fatalf("%+v", r)
				}
				time.Sleep(row.asks - time.Second)
				r.Unknown[0].WhenAnswered(func(late Result) {
					if told.Add(1); !late.Has(script.Done) || late.Sent != start {
						t.Errorf("told %+v", late)
					}
				})
				time.Sleep(10 * time.Second)
				if n := told.Load(); n != row.told {
					t.Errorf("told %d times", n)
				}
			}, row.read)
		})
	}
}

// A request may take effect after its caller has stopped waiting for the answer.
func TestOnceWithin(t *testing.T) {
	readingSlowly(t, func(t *testing.T, c *Caller, s *slowReader) {
		start, now := time.Now(), time.Now().UnixMilli()
		r := c.OnceWithin(t.Context(), request, time.Second, 5*time.Second)
		if took := time.Since(start); !errors.Is(r.Err, ErrNoAnswer) || took != time.Second {
			t.Errorf("%+v after %v", r, took)
		}
		if limit, err := strconv.ParseInt(s.calls[0].Args[0], 10, 64); err != nil || limit < now+5000 || limit > now+6000 {
			t.Errorf("limit %d after now, %v", limit-now, err)
		}
	}, time.Minute)
}

// reader is a driver whose answers can be read when the time of an attempt is over, and not before.
type reader struct {
	server

	reads chan struct{}
}

func (r *reader) Eval(ctx context.Context, _ driver.Call) (any, error) {
	select {
	case <-r.reads:
		return []any{int64(script.Done), time.Now().UnixMilli()}, nil
	case <-ctx.Done():
		return nil, driver.ConnectionError(ctx.Err(), false)
	}
}

// A goroutine that is about to read an answer runs before the attempt is given up.
func TestAttemptWaitsForReaders(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	faketime.Test(t, func(t *testing.T) {
		r := &reader{reads: make(chan struct{})}
		var group tasks.Group
		c := New(Config{Driver: r, Tasks: &group, Life: t.Context(), Closing: t.Context(), Timeout: 3 * time.Second})
		for range 100 {
			var all sync.WaitGroup
			all.Go(func() {
				time.Sleep(time.Second)
				select {
				case r.reads <- struct{}{}:
				default: // nobody waits any more
				}
			})
			if res := c.Once(t.Context(), request, time.Second); !res.Has(script.Done) {
				t.Fatalf("%+v", res)
			}
			all.Wait()
		}
	})
}
