package test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// The read-write lock, on every driver, in real time.
func TestRWMutex(t *testing.T) {
	onEveryDriver(t, map[string]func(*testing.T, *platform){
		"ReadersShare":         readersShare,
		"WriterIsAlone":        writerIsAlone,
		"Downgrade":            downgrade,
		"NoUpgrade":            noUpgrade,
		"WriterTokens":         writerTokens,
		"WriterWaitsByMessage": writerWaitsByMessage,
		"NoOverlap":            rwNoOverlap,
		"A1_SidesAreSeparate":  sidesAreSeparate,
		"A2_DeadHoldsDoNot":    deadHoldsDoNotCount,
		"ForceEachSide":        forceEachSide,
		"OtherKindOfLock":      otherKindOfLock,
	})
}

func readersShare(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	one := must(t)(a.RLocker().Lock(background))
	two := must(t)(b.RLocker().Lock(background))
	nested := must(t)(a.RLocker().Lock(one.Context()))
	got := fields(p.do(t, name, "HGETALL", name))
	want := map[string]string{"mode": "read", one.Owner().String(): "2", two.Owner().String(): "1"}
	if len(got) != len(want) || got["mode"] != "read" || got[one.Owner().String()] != "2" || got[two.Owner().String()] != "1" {
		t.Errorf("in Redis %v, want %v", got, want)
	}
	for _, key := range []string{
		one.Owner().String() + ":rwlock_timeout:1", one.Owner().String() + ":rwlock_timeout:2",
		two.Owner().String() + ":rwlock_timeout:1",
	} {
		key = "{" + name + "}:" + key
		if got := p.do(t, name, "GET", key); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s = %v", key, got)
		}
	}
	_, err := b.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, one)
	unlock(t, nested)
	if got := fields(p.do(t, name, "HGETALL", name)); len(got) != 2 {
		t.Errorf("after a reader has left: %v", got)
	}
	unlock(t, two)
	nothingLeft(t, p, name)
}

// fields reads the reply to HGETALL.
func fields(lines []string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		m[lines[i]] = lines[i+1]
	}
	return m
}

func nothingLeft(t *testing.T, p *platform, name string) {
	t.Helper()
	waitFor(t, "nothing to be left behind", func() bool { // one who has given up may be granted the lock before it has left
		got := p.do(t, name, "KEYS", "*"+name+"*")
		return len(got) == 0 || len(got) == 1 && got[0] == protocol.TurnKey(name) // which stays for a second
	})
}

func writerIsAlone(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	w := must(t)(a.Lock(background))
	nested := must(t)(a.Lock(w.Context()))
	if got := fields(p.do(t, name, "HGETALL", name)); got["mode"] != "write" || got[w.Owner().String()+":write"] != "2" {
		t.Errorf("in Redis %v", got)
	}
	for _, l := range []holdfast.Locker{a, b, a.RLocker(), b.RLocker()} {
		_, err := l.TryLock(background)
		wantError(t, err, holdfast.ErrLocked)
		var refused *holdfast.LockedError
		if !errors.As(err, &refused) || refused.Holder != w.Owner() {
			t.Errorf("who holds it? %v", err)
		}
	}
	unlock(t, nested)
	unlock(t, w)
	nothingLeft(t, p, name)
}

// The writer reads, and goes on reading when it writes no more; L10: readers who
// wait are told.
func downgrade(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	w := must(t)(a.Lock(background, holdfast.FixedLease(time.Minute)))
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- must(t)(a.RLocker().Lock(background)) }()
	p.awaitRefusal(t, b.RLocker())
	waitFor(t, "who was refused to leave the line", func() bool { return p.standing(t, name) == 1 })
	start := time.Now()
	r := must(t)(a.Downgrade(w)) // not behind the one who waits for it
	if r.Owner() != w.Owner() || r.Context().Err() != nil || w.Context().Err() == nil {
		t.Errorf("owner %v, then %v; contexts %v, then %v", w.Owner(), r.Owner(), w.Context().Err(), r.Context().Err())
	}
	wantError(t, w.Unlock(), holdfast.ErrNotHeld)
	other := <-waiting
	if took := time.Since(start); took > byMessage {
		t.Errorf("a reader noticed after %v", took)
	}
	if got := fields(p.do(t, name, "HGETALL", name)); got["mode"] != "read" || len(got) != 3 {
		t.Errorf("in Redis %v", got)
	}
	_, err := b.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, r)
	unlock(t, other)
	nothingLeft(t, p, name)
}

// awaitRefusal returns when others have had the time to be refused, too.
func (p *platform) awaitRefusal(t *testing.T, l holdfast.Locker) {
	t.Helper()
	waitFor(t, "a refusal", func() bool { // not at once, where it has to connect first
		_, err := l.Lock(background, holdfast.Wait(100*time.Millisecond))
		return errors.Is(err, holdfast.ErrLocked)
	})
}

func noUpgrade(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	r := must(t)(a.RLocker().Lock(background))
	_, err := a.Lock(r.Context())
	wantError(t, err, holdfast.ErrReentrant)
	_, err = a.TryLock(r.Context())
	wantError(t, err, holdfast.ErrReentrant)
	// Nor does it wait in line behind one who waits for it.
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- must(t)(a.Lock(background)) }()
	p.awaitRefusal(t, b)
	_, err = a.Lock(r.Context())
	wantError(t, err, holdfast.ErrReentrant)
	unlock(t, r)
	unlock(t, <-waiting)
	nothingLeft(t, p, name)
}

func writerTokens(t *testing.T, p *platform) {
	name := fresh()
	m := p.client(t).NewRWMutex(name, holdfast.Fenced())
	first := must(t)(m.Lock(background))
	reading := must(t)(m.RLocker().Lock(first.Context()))
	if first.Token() == 0 || reading.Token() != 0 {
		t.Errorf("tokens %d for the writer, %d for the reader", first.Token(), reading.Token())
	}
	unlock(t, reading)
	unlock(t, first)
	second := must(t)(m.Lock(background))
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	unlock(t, second)
}

// A writer who waits for several readers is let in by the last one's message.
func writerWaitsByMessage(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	one, two := must(t)(a.RLocker().Lock(background)), must(t)(b.RLocker().Lock(background))
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- must(t)(b.Lock(background)) }()
	p.awaitRefusal(t, a)
	unlock(t, two)
	unlock(t, one)
	start := time.Now()
	w := <-waiting
	if took := time.Since(start); took > byMessage {
		t.Errorf("the writer noticed after %v", took)
	}
	unlock(t, w)
}

// rwNoOverlap has several clients read and write, and looks who is in at once.
func rwNoOverlap(t *testing.T, p *platform) {
	name := fresh()
	var in atomic.Int64 // readers, or -1 for a writer
	var wg sync.WaitGroup
	var most atomic.Int64
	for range 3 {
		m := p.client(t).NewRWMutex(name, holdfast.WritersFirst())
		for i := range 4 {
			wg.Go(func() {
				for range 8 {
					if i == 0 {
						h := must(t)(m.Lock(background))
						if !in.CompareAndSwap(0, -1) {
							t.Error("a writer is not alone")
						}
						time.Sleep(200 * time.Microsecond) // the work
						in.Store(0)
						unlock(t, h)
						continue
					}
					h := must(t)(m.RLocker().Lock(background))
					if n := in.Add(1); n <= 0 {
						t.Error("a reader beside a writer")
					} else if n > most.Load() {
						most.Store(n)
					}
					time.Sleep(5 * time.Millisecond) // the work
					in.Add(-1)
					unlock(t, h)
				}
			})
		}
	}
	wg.Wait()
	if most.Load() < 2 {
		t.Error("readers have never shared the lock")
	}
	nothingLeft(t, p, name)
}

// A1: Inspect of the reader's side is about the readers alone.
func sidesAreSeparate(t *testing.T, p *platform) {
	name := fresh()
	m := p.client(t).NewRWMutex(name)
	state := func(modes ...string) {
		t.Helper()
		r, err := m.RLocker().Inspect(background)
		if reading := slices.Contains(modes, "read"); err != nil || r.Locked() != reading || r.TTL > 0 != reading {
			t.Errorf("readers: %+v, %v", r, err)
		}
		both, err := m.Inspect(background)
		var found []string
		for _, h := range both.Holders {
			found = append(found, h.Mode)
		}
		if err != nil || !slices.Equal(found, modes) || both.TTL > 0 != (len(modes) > 0) || both.Locked() != (len(modes) > 0) {
			t.Errorf("%+v, %v; want %q", both, err, modes)
		}
	}
	state()
	w := must(t)(m.Lock(background))
	state("write")
	r := must(t)(m.RLocker().Lock(w.Context()))
	state("write", "read")
	for side, count := range map[inspectable]int{m.RLocker(): 1, m: 2} {
		if n, err := holdCount(side, w.Owner()); n != count || err != nil {
			t.Errorf("count %d, want %d; %v", n, count, err)
		}
	}
	unlock(t, w)
	state("read")
	unlock(t, r)
	state()
}

// A2: a reader whose lease has ended does not count, though another one keeps the
// lock alive; and it begins anew.
func deadHoldsDoNotCount(t *testing.T, p *platform) {
	name := fresh()
	a, b := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	dead := must(t)(a.RLocker().Lock(background, holdfast.FixedLease(2*time.Second)))
	alive := must(t)(b.RLocker().Lock(background))
	<-dead.Context().Done()
	waitFor(t, "the end of the lease", func() bool {
		n, err := holdCount(b.RLocker(), dead.Owner())
		return err == nil && n == 0
	})
	wantError(t, dead.Unlock(), holdfast.ErrLost)
	again := must(t)(a.RLocker().Lock(holdfast.WithOwner(background, dead.Owner())))
	if n, err := holdCount(b.RLocker(), dead.Owner()); n != 1 || err != nil {
		t.Errorf("HoldCount: %d, %v", n, err)
	}
	unlock(t, again)
	unlock(t, alive)
	nothingLeft(t, p, name)
}

// The readers' side can be taken from its holders, and the writer stays. The lock can be taken from the writer, with what it
// reads, and not from readers.
func forceEachSide(t *testing.T, p *platform) {
	name := fresh()
	m, tool := p.client(t).NewRWMutex(name), p.client(t).NewRWMutex(name)
	w := must(t)(m.Lock(background))
	if did, err := tool.RLocker().ForceUnlock(background); did || err != nil {
		t.Errorf("readers of a lock that is written: %v, %v", did, err)
	}
	r := must(t)(m.RLock(w.Context()))
	if did, err := tool.RLocker().ForceUnlock(background); !did || err != nil {
		t.Errorf("the readers: %v, %v", did, err)
	}
	wantError(t, r.Unlock(), holdfast.ErrLost)
	if found, err := tool.Inspect(background); err != nil || len(found.Holders) != 1 || found.Holders[0].Mode != holdfast.ModeWrite {
		t.Errorf("the writer went with the readers: %+v, %v", found, err)
	}
	r = must(t)(m.RLock(w.Context()))
	if did, err := tool.ForceUnlock(background); !did || err != nil {
		t.Errorf("the writer: %v, %v", did, err)
	}
	wantError(t, w.Unlock(), holdfast.ErrLost)
	wantError(t, r.Unlock(), holdfast.ErrLost)
	r = must(t)(m.RLock(background))
	if did, err := tool.ForceUnlock(background); did || err != nil {
		t.Errorf("the writer of a lock that is read: %v, %v", did, err)
	}
	if found, err := tool.Inspect(background); err != nil || !found.HeldBy(r.Owner()) {
		t.Errorf("a reader went without a writer: %+v, %v", found, err)
	}
	unlock(t, r)
	nothingLeft(t, p, name)
}

// A plain lock of the same name keeps both sides out, and is told as what it is;
// see errors_test.go.
func otherKindOfLock(t *testing.T, p *platform) {
	name := fresh()
	c := p.client(t)
	plain := must(t)(c.NewMutex(name).Lock(background))
	m := c.NewRWMutex(name)
	for _, l := range []holdfast.Locker{m.RLocker(), m} {
		_, err := l.TryLock(background)
		wantError(t, err, holdfast.ErrOtherKind)
	}
	unlock(t, plain)
	r := must(t)(m.RLocker().Lock(background))
	_, err := c.NewMutex(name).TryLock(background)
	wantError(t, err, holdfast.ErrOtherKind)
	unlock(t, r)
}
