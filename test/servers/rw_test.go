package servers

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The read-write lock, on every driver, in real time.
func TestRWMutex(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
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

func readersShare(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	one := kit.Must(t)(a.RLocker().Lock(background))
	two := kit.Must(t)(b.RLocker().Lock(background))
	nested := kit.Must(t)(a.RLocker().Lock(one.Context()))
	got := kit.Fields(p.Do(t, name, "HGETALL", name))
	want := map[string]string{"mode": "read", one.Owner().String(): "2", two.Owner().String(): "1"}
	if len(got) != len(want) || got["mode"] != "read" || got[one.Owner().String()] != "2" || got[two.Owner().String()] != "1" {
		t.Errorf("in Redis %v, want %v", got, want)
	}
	for _, key := range []string{
		one.Owner().String() + ":rwlock_timeout:1", one.Owner().String() + ":rwlock_timeout:2",
		two.Owner().String() + ":rwlock_timeout:1",
	} {
		key = "{" + name + "}:" + key
		if got := p.Do(t, name, "GET", key); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s = %v", key, got)
		}
	}
	_, err := b.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, one)
	kit.Unlock(t, nested)
	if got := kit.Fields(p.Do(t, name, "HGETALL", name)); len(got) != 2 {
		t.Errorf("after a reader has left: %v", got)
	}
	kit.Unlock(t, two)
	nothingLeft(t, p, name)
}

func nothingLeft(t *testing.T, p *kit.Platform, name string) {
	t.Helper()
	kit.WaitFor(t, "nothing to be left behind", func() bool { // one who has given up may be granted the lock before it has left
		got := p.Do(t, name, "KEYS", "*"+name+"*")
		return len(got) == 0 || len(got) == 1 && got[0] == protocol.TurnKey(name) // which stays for a second
	})
}

func writerIsAlone(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	w := kit.Must(t)(a.Lock(background))
	nested := kit.Must(t)(a.Lock(w.Context()))
	if got := kit.Fields(p.Do(t, name, "HGETALL", name)); got["mode"] != "write" || got[w.Owner().String()+":write"] != "2" {
		t.Errorf("in Redis %v", got)
	}
	for _, l := range []holdfast.Locker{a, b, a.RLocker(), b.RLocker()} {
		_, err := l.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		var refused *holdfast.LockedError
		if !errors.As(err, &refused) || refused.Holder != w.Owner() {
			t.Errorf("who holds it? %v", err)
		}
	}
	kit.Unlock(t, nested)
	kit.Unlock(t, w)
	nothingLeft(t, p, name)
}

// The writer reads, and goes on reading when it writes no more; L10: readers who
// wait are told.
func downgrade(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	w := kit.Must(t)(a.Lock(background, holdfast.FixedLease(time.Minute)))
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- kit.Must(t)(a.RLocker().Lock(background)) }()
	p.AwaitRefusal(t, b.RLocker())
	kit.WaitFor(t, "who was refused to leave the line", func() bool { return p.Standing(t, name) == 1 })
	start := time.Now()
	r := kit.Must(t)(a.Downgrade(w)) // not behind the one who waits for it
	if r.Owner() != w.Owner() || r.Context().Err() != nil || w.Context().Err() == nil {
		t.Errorf("owner %v, then %v; contexts %v, then %v", w.Owner(), r.Owner(), w.Context().Err(), r.Context().Err())
	}
	kit.WantError(t, w.Unlock(), holdfast.ErrNotHeld)
	other := <-waiting
	if took := time.Since(start); took > kit.ByMessage {
		t.Errorf("a reader noticed after %v", took)
	}
	if got := kit.Fields(p.Do(t, name, "HGETALL", name)); got["mode"] != "read" || len(got) != 3 {
		t.Errorf("in Redis %v", got)
	}
	_, err := b.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, r)
	kit.Unlock(t, other)
	nothingLeft(t, p, name)
}

func noUpgrade(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	r := kit.Must(t)(a.RLocker().Lock(background))
	_, err := a.Lock(r.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	_, err = a.TryLock(r.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	// Nor does it wait in line behind one who waits for it.
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- kit.Must(t)(a.Lock(background)) }()
	p.AwaitRefusal(t, b)
	_, err = a.Lock(r.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	kit.Unlock(t, r)
	kit.Unlock(t, <-waiting)
	nothingLeft(t, p, name)
}

func writerTokens(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	m := p.Client(t).NewRWMutex(name, holdfast.Fenced())
	first := kit.Must(t)(m.Lock(background))
	reading := kit.Must(t)(m.RLocker().Lock(first.Context()))
	if first.Token() == 0 || reading.Token() != 0 {
		t.Errorf("tokens %d for the writer, %d for the reader", first.Token(), reading.Token())
	}
	kit.Unlock(t, reading)
	kit.Unlock(t, first)
	second := kit.Must(t)(m.Lock(background))
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	kit.Unlock(t, second)
}

// A writer who waits for several readers is let in by the last one's message.
func writerWaitsByMessage(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	one, two := kit.Must(t)(a.RLocker().Lock(background)), kit.Must(t)(b.RLocker().Lock(background))
	waiting := make(chan *holdfast.Hold)
	go func() { waiting <- kit.Must(t)(b.Lock(background)) }()
	p.AwaitRefusal(t, a)
	kit.Unlock(t, two)
	kit.Unlock(t, one)
	start := time.Now()
	w := <-waiting
	if took := time.Since(start); took > kit.ByMessage {
		t.Errorf("the writer noticed after %v", took)
	}
	kit.Unlock(t, w)
}

// rwNoOverlap has several clients read and write, and looks who is in at once.
func rwNoOverlap(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	var in atomic.Int64 // readers, or -1 for a writer
	var wg sync.WaitGroup
	var most atomic.Int64
	for range 3 {
		m := p.Client(t).NewRWMutex(name, holdfast.WritersFirst())
		for i := range 4 {
			wg.Go(func() {
				for range 8 {
					if i == 0 {
						h := kit.Must(t)(m.Lock(background))
						if !in.CompareAndSwap(0, -1) {
							t.Error("a writer is not alone")
						}
						time.Sleep(200 * time.Microsecond) // the work
						in.Store(0)
						kit.Unlock(t, h)
						continue
					}
					h := kit.Must(t)(m.RLocker().Lock(background))
					if n := in.Add(1); n <= 0 {
						t.Error("a reader beside a writer")
					} else if n > most.Load() {
						most.Store(n)
					}
					time.Sleep(5 * time.Millisecond) // the work
					in.Add(-1)
					kit.Unlock(t, h)
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
func sidesAreSeparate(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	m := p.Client(t).NewRWMutex(name)
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
	w := kit.Must(t)(m.Lock(background))
	state("write")
	r := kit.Must(t)(m.RLocker().Lock(w.Context()))
	state("write", "read")
	for side, count := range map[kit.Inspectable]int{m.RLocker(): 1, m: 2} {
		if n, err := kit.HoldCount(side, w.Owner()); n != count || err != nil {
			t.Errorf("count %d, want %d; %v", n, count, err)
		}
	}
	kit.Unlock(t, w)
	state("read")
	kit.Unlock(t, r)
	state()
}

// A2: a reader whose lease has ended does not count, though another one keeps the
// lock alive; and it begins anew.
func deadHoldsDoNotCount(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	dead := kit.Must(t)(a.RLocker().Lock(background, holdfast.FixedLease(2*time.Second)))
	alive := kit.Must(t)(b.RLocker().Lock(background))
	<-dead.Context().Done()
	kit.WaitFor(t, "the end of the lease", func() bool {
		n, err := kit.HoldCount(b.RLocker(), dead.Owner())
		return err == nil && n == 0
	})
	kit.WantError(t, dead.Unlock(), holdfast.ErrLost)
	again := kit.Must(t)(a.RLocker().Lock(holdfast.WithOwner(background, dead.Owner())))
	if n, err := kit.HoldCount(b.RLocker(), dead.Owner()); n != 1 || err != nil {
		t.Errorf("HoldCount: %d, %v", n, err)
	}
	kit.Unlock(t, again)
	kit.Unlock(t, alive)
	nothingLeft(t, p, name)
}

// The readers' side can be taken from its holders, and the writer stays. The lock can be taken from the writer, with what it
// reads, and not from readers.
func forceEachSide(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	m, tool := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	w := kit.Must(t)(m.Lock(background))
	if did, err := tool.RLocker().ForceUnlock(background); did || err != nil {
		t.Errorf("readers of a lock that is written: %v, %v", did, err)
	}
	r := kit.Must(t)(m.RLock(w.Context()))
	if did, err := tool.RLocker().ForceUnlock(background); !did || err != nil {
		t.Errorf("the readers: %v, %v", did, err)
	}
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	if found, err := tool.Inspect(background); err != nil || len(found.Holders) != 1 || found.Holders[0].Mode != holdfast.ModeWrite {
		t.Errorf("the writer went with the readers: %+v, %v", found, err)
	}
	r = kit.Must(t)(m.RLock(w.Context()))
	if did, err := tool.ForceUnlock(background); !did || err != nil {
		t.Errorf("the writer: %v, %v", did, err)
	}
	kit.WantError(t, w.Unlock(), holdfast.ErrLost)
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	r = kit.Must(t)(m.RLock(background))
	if did, err := tool.ForceUnlock(background); did || err != nil {
		t.Errorf("the writer of a lock that is read: %v, %v", did, err)
	}
	if found, err := tool.Inspect(background); err != nil || !found.HeldBy(r.Owner()) {
		t.Errorf("a reader went without a writer: %+v, %v", found, err)
	}
	kit.Unlock(t, r)
	nothingLeft(t, p, name)
}

// A plain lock of the same name keeps both sides out, and is told as what it is;
// see errors_test.go.
func otherKindOfLock(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	c := p.Client(t)
	plain := kit.Must(t)(c.NewMutex(name).Lock(background))
	m := c.NewRWMutex(name)
	for _, l := range []holdfast.Locker{m.RLocker(), m} {
		_, err := l.TryLock(background)
		kit.WantError(t, err, holdfast.ErrOtherKind)
	}
	kit.Unlock(t, plain)
	r := kit.Must(t)(m.RLocker().Lock(background))
	_, err := c.NewMutex(name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrOtherKind)
	kit.Unlock(t, r)
}
