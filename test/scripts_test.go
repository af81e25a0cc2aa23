package test

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
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
func forScripted(t *testing.T, f func(t *testing.T, w *world, l protocol.Lock, field string)) {
	t.Helper()
	for name, row := range scripted {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				f(t, w, row.lock, row.field)
				w.do("FLUSHALL")
			})
		})
	}
}

// send has the server execute a request, with a limit on its clock, ms; 0: none.
func (w *world) send(r script.Request, limit int64) (script.Reply, error) {
	raw, err := w.server.Driver().Eval(background, driver.Call{
		Script: r.Script, Keys: r.Keys, Args: append([]string{strconv.FormatInt(limit, 10), r.Channel, "PUBLISH"}, r.Args...),
	})
	if err != nil {
		return script.Reply{}, err
	}
	return script.Parse(raw)
}

// wantCode sends a request, and checks what it is answered.
func (w *world) wantCode(what string, r script.Request, want script.Code) {
	w.t.Helper()
	if reply, err := w.send(r, 0); err != nil || reply.Code != want {
		w.t.Errorf("%s: code %d, %v; want %d", what, reply.Code, err, want)
	}
}

// acquiring is an acquire from one count to another.
func acquiring(l protocol.Lock, from, to int, lease time.Duration) script.Request {
	mutex, ok := l.(*protocol.Mutex)
	return l.Acquire(protocol.Acquire{Owner: scriptOwner, From: from, To: to, Lease: lease, Token: ok && mutex.Fenced})
}

// Every script goes from one count to another, and does nothing from any other.
func TestScriptsGoFromCountToCount(t *testing.T) {
	forScripted(t, func(t *testing.T, w *world, l protocol.Lock, field string) {
		const lease = 30 * time.Second
		release := func(from, to int) script.Request { return l.Release(scriptOwner, from, to) }
		stands := func(count string, lives time.Duration) {
			t.Helper()
			w.wantReply(count, "HGET", "x", field)
			if got := w.pttl("x"); got != lives {
				t.Errorf("it lives for %v, want %v", got, lives)
			}
		}
		w.wantCode("nested into nothing", acquiring(l, 1, 2, lease), script.Changed)
		w.wantReply("0", "EXISTS", "x")
		w.wantCode("release of nothing", release(1, 0), script.Refused)

		w.wantCode("acquire", acquiring(l, 0, 1, lease), script.Done)
		stands("1", lease)
		w.wantCode("the same again, with a shorter lease", acquiring(l, 0, 1, time.Second), script.Done)
		stands("1", lease)
		w.wantCode("nested, with a shorter lease", acquiring(l, 1, 2, time.Second), script.Done)
		stands("2", lease)
		w.wantCode("nested, with a longer lease", acquiring(l, 2, 3, 2*lease), script.Done)
		stands("3", 2*lease)

		w.wantCode("a late acquire", acquiring(l, 0, 1, lease), script.Refused)
		w.wantCode("a late nested acquire", acquiring(l, 1, 2, lease), script.Changed)
		w.wantCode("a late release", release(1, 0), script.Changed)
		w.wantCode("a late partial release", release(2, 1), script.Changed)
		stands("3", 2*lease)

		w.wantCode("partial release", release(3, 2), script.Done)
		stands("2", 2*lease)
		w.wantCode("partial release by one that was not nested", release(5, 3), script.Changed)
		w.wantCode("release of two", release(2, 0), script.Done)
		w.wantReply("0", "EXISTS", "x")
		w.wantCode("release again", release(2, 0), script.Refused)
	})
}

// No script writes anything for a lease that is none: its key would live for ever.
func TestScriptsRefuseWhatIsNoLease(t *testing.T) {
	bad := []string{"", "0", "-1", "1.5", "1e5", "0x10", " 5", "5 ", "05", "+5", "1000000000000", "nan", "inf", "x"}
	refused := func(t *testing.T, w *world, r script.Request, at int) {
		t.Helper()
		before := w.do("KEYS", "*")
		for _, lease := range bad {
			r.Args[at] = lease
			if reply, err := w.send(r, 0); err == nil {
				t.Errorf("lease %q: %v", lease, reply)
			}
		}
		w.wantReply(before, "KEYS", "*")
	}
	forScripted(t, func(t *testing.T, w *world, l protocol.Lock, _ string) {
		refused(t, w, acquiring(l, 0, 1, time.Second), 0)
		w.wantCode("acquire", acquiring(l, 0, 1, time.Second), script.Done)
		before := w.do("HGETALL", "x")
		refused(t, w, acquiring(l, 1, 2, time.Second), 0)
		refused(t, w, l.Adopt(protocol.Acquire{Owner: "other", Lease: time.Second}, scriptOwner), 0)
		w.wantReply(before, "HGETALL", "x")
	})
	fake(t, func(t *testing.T, w *world) {
		w.do("SET", "x", "2")
		refused(t, w, protocol.PermitSet{Permits: protocol.Permits{Name: "x"}, IDs: []string{"p"}}.Acquire(protocol.Acquire{Lease: time.Second}), 0)
		w.wantReply("2", "GET", "x")
		w.do("FLUSHALL")
	})
}

// A script does nothing after its limit, and says so.
func TestScriptsKeepTheirLimits(t *testing.T) {
	forScripted(t, func(t *testing.T, w *world, l protocol.Lock, _ string) {
		acquire, release := acquiring(l, 0, 1, time.Minute), l.Release(scriptOwner, 1, 0)
		want := func(what string, r script.Request, limit int64, code script.Code) {
			t.Helper()
			if reply, err := w.send(r, limit); err != nil || reply.Code != code || reply.Now != time.Now().UnixMilli() {
				t.Errorf("%s: %+v, %v", what, reply, err)
			}
		}
		time.Sleep(1500 * time.Microsecond) // a time between two milliseconds
		now := time.Now().UnixMilli()
		want("acquire, late", acquire, now-1, script.Late)
		w.wantReply("0", "EXISTS", "x")
		want("acquire", acquire, now, script.Done)
		want("release, late", release, now-1, script.Late)
		w.wantReply("1", "EXISTS", "x")
		want("release", release, now, script.Done)
		w.wantReply("0", "EXISTS", "x")
	})
}

// A read hold whose key has gone is not given back, but lost.
func TestReleaseOfADeadReadHold(t *testing.T) {
	fake(t, func(_ *testing.T, w *world) {
		l := protocol.NewRead("x")
		w.wantCode("acquire", acquiring(l, 0, 1, time.Minute), script.Done)
		w.do("DEL", protocol.ReadHoldKey("x", scriptOwner, 1))
		w.wantCode("release", l.Release(scriptOwner, 1, 0), script.Refused)
		w.do("FLUSHALL")
	})
}

// A permit is taken once, whoever asks again; it is not held for a shorter time then,
// and it is not given back once it has expired.
func TestPermitIsTakenOnce(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		permits := protocol.Permits{Name: "x"}
		held := protocol.PermitsKey("x")
		one := protocol.PermitSet{Permits: permits, IDs: []string{"p"}}
		acquire := func(lease time.Duration) script.Request { return one.Acquire(protocol.Acquire{Lease: lease}) }
		w.wantCode("acquire without a semaphore", acquire(time.Second), script.Refused)
		w.do("SET", "x", "2")
		w.wantCode("acquire", acquire(2*time.Second), script.Done)
		score := w.do("ZSCORE", held, "p")
		w.wantCode("again", acquire(time.Second), script.Done)
		w.wantReply("1", "GET", "x")
		w.wantReply(score, "ZSCORE", held, "p")

		w.wantCode("release of another", protocol.PermitSet{Permits: permits, IDs: []string{"q"}}.Release("", 1, 0), script.Refused)
		w.wantReply("1", "GET", "x")
		time.Sleep(2 * time.Second)
		w.wantCode("release of the expired", one.Release("", 1, 0), script.Refused)
		w.wantReply("2", "GET", "x")
		w.wantReply("0", "EXISTS", held)

		w.wantCode("acquire", acquire(time.Second), script.Done)
		w.wantCode("release", one.Release("", 1, 0), script.Done)
		w.wantCode("again", one.Release("", 1, 0), script.Refused)
		w.wantReply("2", "GET", "x")

		w.wantCode("acquire", acquire(time.Second), script.Done)
		w.do("DEL", "x")
		w.wantCode("release to a semaphore that was deleted", one.Release("", 1, 0), script.Done)
		w.wantReply("0", "EXISTS", "x")
		if _, err := w.send(protocol.PermitSet{Permits: permits}.Release("", 0, 0), 0); err != nil {
			t.Errorf("release of none: %v", err)
		}
	})
}
