package presence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

const id = "99f17b91-c6cc-889e-88f6-8265bee545cf"

// redis notes down what it is sent, and answers as the test says.
type redis struct {
	began  time.Time
	answer func(ctx context.Context, operation string) error // nil: at once
	others time.Time                                         // until when Close waits for something else
	ended  time.Time                                         // when the task ended last

	mu    sync.Mutex
	calls []string
}

// do notes down the time, the operation, whether a write is full, the fields that it sets, and how many it deletes.
func (r *redis) do(ctx context.Context, request script.Request) (res call.Result) {
	text := time.Since(r.began).String() + " " + request.Script.Name()
	if args := request.Args; request.Script.Name() == "write" {
		held, _ := strconv.Atoi(args[7])
		var set []string
		for i := range held {
			set = append(set, strings.TrimPrefix(args[8+2*i], id+":"))
		}
		slices.Sort(set)
		text += fmt.Sprintf(" %s %v %d", args[0], set, len(args)-8-2*held)
	}
	r.mu.Lock()
	r.calls = append(r.calls, text)
	r.mu.Unlock()
	if r.answer != nil {
		res.Err = r.answer(ctx, request.Script.Name())
	}
	var refused *driver.Error
	if res.Err != nil && !errors.As(res.Err, &refused) {
		res.Unknown = []*call.Attempt{nil}
	}
	return res
}

// want compares what was sent since it was called last.
func (r *redis) want(t *testing.T, calls ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.calls, calls) {
		t.Errorf("sent: %q, want %q", r.calls, calls)
	}
	r.calls = nil
}

// with runs a test under fake time. closes ends Config.Closing and withdraws.
func with(t *testing.T, test func(t *testing.T, r *redis, p *Presence, closes func())) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		closing, cancel := context.WithCancel(t.Context())
		r := &redis{began: time.Now()}
		p := New(Config{
			ID: id, Timeout: 3 * time.Second, Do: r.do, Closing: closing,
			Go:     func(f func()) bool { go func() { f(); r.ended = time.Now() }(); return true },
			Others: func() bool { return time.Now().Before(r.others) },
			Expiry: func([]*call.Attempt) mono.Time { return 0 },
		})
		test(t, r, p, func() { cancel(); p.Withdraw() })
	})
}

// holdsX has an owner of the client begin to hold x.
func (p *Presence) holdsX(owner int) {
	p.Holds(owner, []string{protocol.HeldField(id+":"+strconv.Itoa(owner), "x")}, mono.Now())
}

var (
	errSilent  = errors.New("no answer")
	errNoRight = driver.ServerError("NOPERM this user has no permissions", errors.New("NOPERM"))
)

// silent answers nothing until ctx ends.
func silent(ctx context.Context, _ string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWritesWhatChanges(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
		p.WriteIfDue(mono.Now())
		p.WriteIfDue(mono.Now())
		r.want(t, "0s write 1 [] 0")
		p.holdsX(1)
		r.want(t, "0s write 0 [1 x] 0")
		p.holdsX(2)
		p.Ended(3)
		r.want(t, "0s write 0 [2 x] 0")
		p.Ended(1)
		r.want(t, "0s write 0 [] 1")
		time.Sleep(fullAfter - 1)
		p.WriteIfDue(mono.Now())
		r.want(t)
		time.Sleep(time.Nanosecond) // nobody asks: what it holds may not be renewed
		r.want(t, "2m0s write 1 [2 x] 0")
		closes()
		r.want(t, "2m0s delete")
		p.Ended(2)
		p.Withdraw()
		r.want(t)
	})
}

// A client that holds nothing is not written anew, unless it asks for something, or a hold outlasts it.
func TestNobodyIsNamedForLong(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, _ func()) {
		p.WriteIfDue(mono.Now())
		r.want(t, "0s write 1 [] 0")
		p.holdsX(1)
		r.want(t, "0s write 0 [1 x] 0")
		p.Ended(1)
		r.want(t, "0s write 0 [] 1")
		time.Sleep(time.Hour)
		r.want(t)
		p.OutlastedUntil(mono.Now().Add(fullAfter + time.Minute))
		p.WriteIfDue(mono.Now())
		r.want(t, "1h0m0s write 1 [] 0")
		time.Sleep(fullAfter)
		r.want(t, "1h2m0s write 1 [] 0")
		time.Sleep(time.Hour)
		r.want(t)
	})
}

// While one write is under way there is no other one. What changes meanwhile is told by the next, or by a full
// one if it fails.
func TestOneWriteAtATime(t *testing.T) {
	for _, fails := range []error{nil, errSilent} {
		with(t, func(t *testing.T, r *redis, p *Presence, _ func()) {
			r.answer = func(context.Context, string) error {
				if time.Since(r.began) > retryAfter {
					return nil
				}
				time.Sleep(time.Second)
				return fails
			}
			p.WriteIfDue(mono.Now())
			r.want(t, "0s write 1 [] 0")
			p.holdsX(1)
			p.holdsX(2)
			p.Ended(2)
			r.want(t)
			time.Sleep(time.Second)
			if fails == nil {
				r.want(t, "1s write 0 [1 x] 1")
				time.Sleep(time.Second)
				return
			}
			r.want(t)
			time.Sleep(retryAfter)
			r.want(t, "11s write 1 [1 x] 0")
		})
	}
}

// After a failure nothing is written for a while, whatever changes. While Redis refuses to be told of holds, those
// that have ended leave nothing behind.
func TestPresenceForgetsWhatItCannotTell(t *testing.T) {
	for err, pause := range map[error]time.Duration{errSilent: retryAfter, errNoRight: rightAfter} {
		with(t, func(t *testing.T, r *redis, p *Presence, _ func()) {
			r.answer = func(context.Context, string) error { return err }
			p.WriteIfDue(mono.Now())
			r.want(t, "0s write 1 [] 0")
			for i := range 100 {
				p.holdsX(i)
				p.Ended(i)
			}
			if h := p.held; len(h.changed)+len(h.holds)+len(h.fields) > 0 {
				t.Errorf("%d changes, %d holds and %d fields are left", len(h.changed), len(h.holds), len(h.fields))
			}
			time.Sleep(pause - 1)
			p.WriteIfDue(mono.Now())
			r.want(t)
			time.Sleep(time.Nanosecond)
			p.holdsX(1)
			r.want(t, pause.String()+" write 1 [1 x] 0")
		})
	}
}

func TestFarewell(t *testing.T) {
	for name, test := range map[string]struct {
		silent int // how many farewells are not answered
		err    error
		calls  []string
		left   bool
		took   time.Duration
		says   error
	}{
		"answered":    {calls: []string{"0s delete"}},
		"no right":    {err: errNoRight, calls: []string{"0s delete"}, left: true, says: errNoRight},
		"silent once": {silent: 1, calls: []string{"0s delete", "250ms delete"}, took: farewell},
		"silent":      {silent: 9, calls: []string{"0s delete", "250ms delete"}, left: true, took: 2 * farewell, says: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
				p.WriteIfDue(mono.Now())
				r.want(t, "0s write 1 [] 0")
				asked := 0
				r.answer = func(ctx context.Context, _ string) error {
					if asked++; asked <= test.silent {
						return silent(ctx, "")
					}
					return test.err
				}
				closes()
				time.Sleep(test.took)
				r.want(t, test.calls...)
				if p.mu.Lock(); p.written != test.left || p.writing {
					t.Errorf("written %t, writing %t", p.written, p.writing)
				}
				p.mu.Unlock()
				if _, ttl, err := p.Left(); !errors.Is(err, test.says) || ttl != protocol.ClientTTL-test.took {
					t.Errorf("left for %v: %v", ttl, err)
				}
				if _, _, err := p.Left(); err != nil {
					t.Errorf("told twice: %v", err)
				}

				// Whoever closes the client again has a farewell that has failed repeated.
				r.answer = nil
				p.Withdraw()
				if again := time.Since(r.began).String() + " delete"; test.left {
					r.want(t, again)
				} else {
					r.want(t)
				}
			})
		})
	}
}

// As long as Close waits for something else, the farewell is repeated. It ends before Close's time does.
func TestFarewellGoesOnWithOthers(t *testing.T) {
	for name, test := range map[string]struct {
		others, silent, until time.Duration
		calls                 int
		last                  string
	}{
		"answered":       {others: time.Second, silent: 900 * time.Millisecond, until: time.Second, calls: 5, last: "1s delete"},
		"answered later": {others: 900 * time.Millisecond, silent: 1100 * time.Millisecond, until: 1250 * time.Millisecond, calls: 6, last: "1.25s delete"},
		"silent":         {others: time.Second, silent: time.Hour, until: 1500 * time.Millisecond, calls: 6, last: "1.25s delete"},
		"silent for all": {others: time.Hour, silent: time.Hour, until: 2500 * time.Millisecond, calls: 10, last: "2.25s delete"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
				p.WriteIfDue(mono.Now())
				r.want(t, "0s write 1 [] 0")
				r.others = r.began.Add(test.others)
				r.answer = func(ctx context.Context, _ string) error {
					if time.Since(r.began) < test.silent {
						return silent(ctx, "")
					}
					return nil
				}
				closes()
				time.Sleep(time.Minute)
				synctest.Wait()
				kept := r.ended.Sub(r.began)
				if last := r.calls[len(r.calls)-1]; kept != test.until || len(r.calls) != test.calls || last != test.last {
					t.Errorf("%d calls until %v, the last one %q; want %d until %v, and %q", len(r.calls), kept, last, test.calls, test.until, test.last)
				}
			})
		})
	}
}

// A write that is under way when the client closes has a quarter of a second, and the farewell comes after it.
func TestFarewellFollowsTheWrite(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
		r.answer = func(ctx context.Context, operation string) error {
			if operation == "write" {
				return silent(ctx, "")
			}
			return nil
		}
		p.WriteIfDue(mono.Now())
		r.want(t, "0s write 1 [] 0")
		time.Sleep(time.Second)
		closes()
		r.want(t)
		time.Sleep(farewell)
		r.want(t, "1.25s delete")
	})
}

// A write that certainly did not take effect leaves nothing to delete or to report.
func TestNothingStands(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
		r.answer = func(context.Context, string) error { return errNoRight }
		p.WriteIfDue(mono.Now())
		r.want(t, "0s write 1 [] 0")
		closes()
		r.want(t)
		if _, _, err := p.Left(); err != nil {
			t.Error(err)
		}
	})
}

// Left reports a farewell that has not ended.
func TestLeftUnderWay(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
		p.WriteIfDue(mono.Now())
		synctest.Wait()
		r.answer = silent
		closes()
		synctest.Wait()
		if key, ttl, err := p.Left(); key != p.key || ttl != protocol.ClientTTL || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(key, ttl, err)
		}
		time.Sleep(2 * farewell) // then it has ended
	})
}

// What outlasts the client keeps its hash for as long.
func TestFarewellOfAHoldThatStays(t *testing.T) {
	with(t, func(t *testing.T, r *redis, p *Presence, closes func()) {
		p.OutlastedUntil(mono.Now().Add(time.Minute))
		p.WriteIfDue(mono.Now())
		r.want(t, "0s write 1 [] 0")
		closes()
		r.want(t, "0s expire")
	})
}

// A field that two holds have is held until both have ended, and there are no more fields than the hash may have.
func TestHeldSince(t *testing.T) {
	h := newHeldSince()
	h.take(true, 0)
	h.add("write", []string{"f"}, 1)
	h.add("read", []string{"f"}, 5)
	if held, ended := h.take(false, 10); held["f"] != 9 || len(held)+len(ended) != 1 {
		t.Error(held, ended)
	}
	h.remove("write")
	if held, _ := h.take(true, 10); h.hasChanged() || held["f"] != 9 {
		t.Error(held, h.changed)
	}
	h.remove("read")
	h.remove("read")
	if held, ended := h.take(false, 10); len(held) > 0 || !slices.Equal(ended, []string{"f"}) {
		t.Error(held, ended)
	}
	for i := range mostHeld + 1 {
		h.add(i, []string{strconv.Itoa(i)}, 1)
	}
	for i := range mostHeld + 1 {
		h.remove(i)
	}
	if held, ended := h.take(false, 10); len(held) > 0 || len(ended) != mostHeld {
		t.Error(len(held), len(ended))
	}
}

// Of many clients some are asked about, each once; the own one and Redisson's are not.
func TestLookUp(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	p := New(Config{ID: id, Self: protocol.Client{Program: "own"}, Timeout: time.Second, Ask: func(_ context.Context, key string, fields []string) (protocol.Known, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[key]++
		return protocol.Known{Client: protocol.Client{Program: "other\x1b"}, Held: make([]time.Duration, len(fields))}, nil
	}})
	owners := []string{id + ":1", "285475da-9152-4c83-822a-67ee2f116a79:52"}
	for i := range 2 * mostAsked {
		other := fmt.Sprintf("%08x%s:", i, id[8:])
		owners = append(owners, other+"1", other+"2")
	}
	named := 0
	for i, h := range p.Holders(t.Context(), "x", owners) {
		switch {
		case i == 0 && h.Client.Program != "own", i == 1 && h.Client.Program != "", h.Client.Program == "other\x1b":
			t.Errorf("%d: %+v", i, h)
		case h.Client.Program == "other":
			named++
		}
	}
	if len(asked) != mostAsked || named != 2*mostAsked {
		t.Errorf("%d clients were asked about, %d holders named", len(asked), named)
	}
	for key, n := range asked {
		if n != 1 || key == p.key {
			t.Errorf("%s: %d", key, n)
		}
	}
}

// Refusals ask ten times a second, and not at all for a while after one that lacked the right.
func TestHolderOfARefusal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var err error
		p := New(Config{ID: id, Timeout: time.Second, Ask: func(context.Context, string, []string) (protocol.Known, error) {
			return protocol.Known{}, err
		}})
		other := "0" + id[1:] + ":1"
		asked := func() (n int) {
			for range 1000 {
				if _, did := p.Holder(t.Context(), "x", other); did {
					n++
				}
				time.Sleep(10 * time.Millisecond)
			}
			return n
		}
		if n := asked(); n < 90 || n > 115 {
			t.Errorf("%d questions in 10 s", n)
		}
		err = errNoRight
		if n := asked(); n != 1 {
			t.Errorf("%d questions without a right", n)
		}
		time.Sleep(rightAfter)
		if n := asked(); n != 1 {
			t.Errorf("%d questions twenty minutes later", n)
		}
		if _, did := p.Holder(t.Context(), "x", id+":1"); !did {
			t.Error("the client's own owner is not known")
		}
	})
}
