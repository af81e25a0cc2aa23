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
		release := func(from, to int) script.Request { return l.Release(scriptOwner, from, to) }
		stands := func(count string, lives time.Duration) {
			t.Helper()
			w.WantReply(count, "HGET", "x", field)
			if got := w.PTTL("x"); got != lives {
				t.Errorf("it lives for %v, want %v", got, lives)
			}
		}
		wantCode(w, "nested into nothing", acquiring(l, 1, 2, lease), script.Changed)
		w.WantReply("0", "EXISTS", "x")
		wantCode(w, "release of nothing", release(1, 0), script.Refused)

		wantCode(w, "acquire", acquiring(l, 0, 1, lease), script.Done)
		stands("1", lease)
		wantCode(w, "the same again, with a shorter lease", acquiring(l, 0, 1, time.Second), script.Done)
		stands("1", lease)
		wantCode(w, "nested, with a shorter lease", acquiring(l, 1, 2, time.Second), script.Done)
		stands("2", lease)
		wantCode(w, "nested, with a longer lease", acquiring(l, 2, 3, 2*lease), script.Done)
		stands("3", 2*lease)

		wantCode(w, "a late acquire", acquiring(l, 0, 1, lease), script.Refused)
		wantCode(w, "a late nested acquire", acquiring(l, 1, 2, lease), script.Changed)
		wantCode(w, "a late release", release(1, 0), script.Changed)
		wantCode(w, "a late partial release", release(2, 1), script.Changed)
		stands("3", 2*lease)

		wantCode(w, "partial release", release(3, 2), script.Done)
		stands("2", 2*lease)
		wantCode(w, "partial release by one that was not nested", release(5, 3), script.Changed)
		wantCode(w, "release of two", release(2, 0), script.Done)
		w.WantReply("0", "EXISTS", "x")
		wantCode(w, "release again", release(2, 0), script.Refused)
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

// A permit is taken once, whoever asks again; it is not held for a shorter time then,
// and it is not given back once it has expired.
func TestPermitIsTakenOnce(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		permits := protocol.Permits{Name: "x"}
		held := protocol.PermitsKey("x")
		one := protocol.PermitSet{Permits: permits, IDs: []string{"p"}}
		acquire := func(lease time.Duration) script.Request { return one.Acquire(protocol.Acquire{Lease: lease}) }
		wantCode(w, "acquire without a semaphore", acquire(time.Second), script.Refused)
		w.Do("SET", "x", "2")
		wantCode(w, "acquire", acquire(2*time.Second), script.Done)
		score := w.Do("ZSCORE", held, "p")
		wantCode(w, "again", acquire(time.Second), script.Done)
		w.WantReply("1", "GET", "x")
		w.WantReply(score, "ZSCORE", held, "p")

		wantCode(w, "release of another", protocol.PermitSet{Permits: permits, IDs: []string{"q"}}.Release("", 1, 0), script.Refused)
		w.WantReply("1", "GET", "x")
		time.Sleep(2 * time.Second)
		wantCode(w, "release of the expired", one.Release("", 1, 0), script.Refused)
		w.WantReply("2", "GET", "x")
		w.WantReply("0", "EXISTS", held)

		wantCode(w, "acquire", acquire(time.Second), script.Done)
		wantCode(w, "release", one.Release("", 1, 0), script.Done)
		wantCode(w, "again", one.Release("", 1, 0), script.Refused)
		w.WantReply("2", "GET", "x")

		wantCode(w, "acquire", acquire(time.Second), script.Done)
		w.Do("DEL", "x")
		wantCode(w, "release to a semaphore that was deleted", one.Release("", 1, 0), script.Done)
		w.WantReply("0", "EXISTS", "x")
		if _, err := send(w, protocol.PermitSet{Permits: permits}.Release("", 0, 0), 0); err != nil {
			t.Errorf("release of none: %v", err)
		}
	})
}
