package scripts

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The library asks its scripts for little that makes no sense. What they do with it
// all the same is tried here by asking them directly.

const scriptOwner = "0b0ee0e1-9a5c-8e5f-8b0e-0f6cbb0a3f7d:1"

// scripted are the locks with counts, and the field that counts.
var scripted = map[string]struct {
	lock  protocol.Lock
	field string
}{
	"mutex":  {protocol.NewMutex("x"), scriptOwner},
	"fenced": {fencedMutex(), scriptOwner},
	"fair":   {protocol.Fair{Mutex: protocol.NewMutex("x")}, scriptOwner},
	"read":   {protocol.NewRead("x"), scriptOwner},
	"write":  {protocol.NewWrite("x"), protocol.WriterField(scriptOwner)},
}

func fencedMutex() *protocol.Mutex {
	m := protocol.NewMutex("x")
	m.Fenced = true
	return m
}

// forScripted runs f for each of them, and clears the server behind it.
func forScripted(t *testing.T, f func(t *testing.T, w *kit.World, l protocol.Lock, field string)) {
	t.Helper()
	for name, row := range scripted {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				f(t, w, row.lock, row.field)
				w.Do("FLUSHALL")
			})
		})
	}
}

// send has the server execute a request, with a limit on its clock, ms; 0: none.
func send(w *kit.World, r script.Request, limit int64) (script.Reply, error) {
	raw, err := w.Server.Driver().Eval(background, driver.Call{
		Script: r.Script, Keys: r.Keys, Args: append([]string{strconv.FormatInt(limit, 10), r.Channel, "PUBLISH"}, r.Args...),
	})
	if err != nil {
		return script.Reply{}, err
	}
	return script.Parse(raw)
}

// wantCode sends a request, and checks what it is answered.
func wantCode(w *kit.World, what string, r script.Request, want script.Code) {
	w.T.Helper()
	if reply, err := send(w, r, 0); err != nil || reply.Code != want {
		w.T.Errorf("%s: code %d, %v; want %d", what, reply.Code, err, want)
	}
}

// acquiring is an acquire from one count to another.
func acquiring(l protocol.Lock, from, to int, lease time.Duration) script.Request {
	mutex, ok := l.(*protocol.Mutex)
	return l.Acquire(protocol.Acquire{Owner: scriptOwner, From: from, To: to, Lease: lease, Token: ok && mutex.Fenced})
}

// Every script goes from one count to another, and does nothing from any other.
func TestScriptsGoFromCountToCount(t *testing.T) {
	forScripted(t, func(t *testing.T, w *kit.World, l protocol.Lock, field string) {
		const lease = 30 * time.Second
		for _, step := range []struct {
			what     string
			acquires bool
			from, to int
			lease    time.Duration
			code     script.Code
			count    int // that stands then; 0: nothing
			lives    time.Duration
		}{
			{"nested into nothing", true, 1, 2, lease, script.Changed, 0, 0},
			{"release of nothing", false, 1, 0, 0, script.Refused, 0, 0},
			{"acquire", true, 0, 1, lease, script.Done, 1, lease},
			{"the same again, with a shorter lease", true, 0, 1, time.Second, script.Done, 1, lease},
			{"nested, with a shorter lease", true, 1, 2, time.Second, script.Done, 2, lease},
			{"nested, with a longer lease", true, 2, 3, 2 * lease, script.Done, 3, 2 * lease},
			{"a late acquire", true, 0, 1, lease, script.Refused, 3, 2 * lease},
			{"a late nested acquire", true, 1, 2, lease, script.Changed, 3, 2 * lease},
			{"a late release", false, 1, 0, 0, script.Changed, 3, 2 * lease},
			{"a late partial release", false, 2, 1, 0, script.Changed, 3, 2 * lease},
			{"partial release", false, 3, 2, 0, script.Done, 2, 2 * lease},
			{"partial release by one that was not nested", false, 5, 3, 0, script.Changed, 2, 2 * lease},
			{"release of two", false, 2, 0, 0, script.Done, 0, 0},
			{"release again", false, 2, 0, 0, script.Refused, 0, 0},
		} {
			request := l.Release(scriptOwner, step.from, step.to)
			if step.acquires {
				request = acquiring(l, step.from, step.to, step.lease)
			}
			wantCode(w, step.what, request, step.code)
			if step.count == 0 {
				w.WantReply("0", "EXISTS", "x")
				continue
			}
			w.WantReply(strconv.Itoa(step.count), "HGET", "x", field)
			if got := w.PTTL("x"); got != step.lives {
				t.Errorf("%s: it lives for %v, want %v", step.what, got, step.lives)
			}
		}
	})
}

// No script writes anything for a lease that is none: its key would live for ever.
func TestScriptsRefuseWhatIsNoLease(t *testing.T) {
	bad := []string{"", "0", "-1", "1.5", "1e5", "0x10", " 5", "5 ", "05", "+5", "1000000000000", "nan", "inf", "x"}
	refused := func(t *testing.T, w *kit.World, r script.Request, at int) {
		t.Helper()
		before := w.Do("KEYS", "*")
		for _, lease := range bad {
			r.Args[at] = lease
			if reply, err := send(w, r, 0); err == nil {
				t.Errorf("lease %q: %v", lease, reply)
			}
		}
		w.WantReply(before, "KEYS", "*")
	}
	forScripted(t, func(t *testing.T, w *kit.World, l protocol.Lock, _ string) {
		refused(t, w, acquiring(l, 0, 1, time.Second), 0)
		wantCode(w, "acquire", acquiring(l, 0, 1, time.Second), script.Done)
		before := w.Do("HGETALL", "x")
		refused(t, w, acquiring(l, 1, 2, time.Second), 0)
		refused(t, w, l.Adopt(protocol.Acquire{Owner: "other", Lease: time.Second}, scriptOwner), 0)
		w.WantReply(before, "HGETALL", "x")
	})
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Do("SET", "x", "2")
		refused(t, w, protocol.PermitSet{Permits: protocol.Permits{Name: "x"}, IDs: []string{"p"}}.Acquire(protocol.Acquire{Lease: time.Second}), 0)
		w.WantReply("2", "GET", "x")
		w.Do("FLUSHALL")
	})
}

// A script does nothing after its limit, and says so.
func TestScriptsKeepTheirLimits(t *testing.T) {
	forScripted(t, func(t *testing.T, w *kit.World, l protocol.Lock, _ string) {
		acquire, release := acquiring(l, 0, 1, time.Minute), l.Release(scriptOwner, 1, 0)
		want := func(what string, r script.Request, limit int64, code script.Code) {
			t.Helper()
			if reply, err := send(w, r, limit); err != nil || reply.Code != code || reply.Now != time.Now().UnixMilli() {
				t.Errorf("%s: %+v, %v", what, reply, err)
			}
		}
		time.Sleep(1500 * time.Microsecond) // a time between two milliseconds
		now := time.Now().UnixMilli()
		want("acquire, late", acquire, now-1, script.Late)
		w.WantReply("0", "EXISTS", "x")
		want("acquire", acquire, now, script.Done)
		want("release, late", release, now-1, script.Late)
		w.WantReply("1", "EXISTS", "x")
		want("release", release, now, script.Done)
		w.WantReply("0", "EXISTS", "x")
	})
}

// A read hold whose key has gone is not given back, but lost.
func TestReleaseOfADeadReadHold(t *testing.T) {
	kit.Fake(t, func(_ *testing.T, w *kit.World) {
		l := protocol.NewRead("x")
		wantCode(w, "acquire", acquiring(l, 0, 1, time.Minute), script.Done)
		w.Do("DEL", protocol.ReadHoldKey("x", scriptOwner, 1))
		wantCode(w, "release", l.Release(scriptOwner, 1, 0), script.Refused)
		w.Do("FLUSHALL")
	})
}

// A permit is taken once, whoever asks again; it is not held for a shorter time then, and it is not given back once it has expired.
func TestPermitIsTakenOnce(t *testing.T) {
	inMemory(t, "semaphore", 2, func(s *stage) {
		s.play(`
			p tries 2s            | done    | p 2s
			p tries 1s            | done    | p 2s
			q releases            | refused | p 2s
			time 2s
			p releases            | refused | -
			p tries 1s            | done    | p 1s
			p releases            | done    | -
			p releases            | refused | -
			p tries 1s            | done    | p 1s
			redis DEL LOCK
			p releases            | done
			p tries               | refused
		`)
		s.wrong("deleted", "exist", s.do("EXISTS", s.name, s.keys["HELD"]), "0")
	})
}
