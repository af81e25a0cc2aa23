package servers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The read-write lock, on every driver, in real time.
func TestRWMutex(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
		"ReadersShare":        readersShare,
		"Downgrade":           downgrade,
		"A1_SidesAreSeparate": sidesAreSeparate,
		"A2_DeadHoldsDoNot":   deadHoldsDoNotCount,
		"ForceEachSide":       forceEachSide,
	})
}

func readersShare(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	one := kit.Must(t)(a.RLocker().Lock(background))
	two := kit.Must(t)(b.RLocker().Lock(background))
	nested := kit.Must(t)(a.RLocker().Lock(one.Context()))
	ones, twos := one.Owner().String(), two.Owner().String()
	got := kit.Fields(p.Do(t, name, "HGETALL", name))
	if len(got) != 3 || got["mode"] != "read" || got[ones] != "2" || got[twos] != "1" {
		t.Errorf("in Redis %v", got)
	}
	for _, key := range []string{ones + ":rwlock_timeout:1", ones + ":rwlock_timeout:2", twos + ":rwlock_timeout:1"} {
		wantReply(t, p, name, "1", "GET", "{"+name+"}:"+key)
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

// The writer reads, and goes on reading when it writes no more; L10: readers who
// wait are told.
func downgrade(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	a, b := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	w := kit.Must(t)(a.Lock(background, holdfast.FixedLease(time.Minute)))
	waits := waiting(t, p, a.RLocker(), b.RLocker())
	kit.WaitFor(t, "who was refused to leave the line", func() bool { return p.Standing(t, name) == 1 })
	r := kit.Must(t)(a.Downgrade(w)) // not behind the one who waits for it
	if r.Owner() != w.Owner() || r.Context().Err() != nil || w.Context().Err() == nil {
		t.Errorf("owner %v, then %v; contexts %v, then %v", w.Owner(), r.Owner(), w.Context().Err(), r.Context().Err())
	}
	kit.WantError(t, w.Unlock(), holdfast.ErrNotHeld)
	other := <-waits
	if got := kit.Fields(p.Do(t, name, "HGETALL", name)); got["mode"] != "read" || len(got) != 3 {
		t.Errorf("in Redis %v", got)
	}
	_, err := b.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, r)
	kit.Unlock(t, other)
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
	a, b := p.Client(t).NewRWMutex(name).RLocker(), p.Client(t).NewRWMutex(name).RLocker()
	dead := kit.Must(t)(a.Lock(background, holdfast.FixedLease(2*time.Second)))
	alive := kit.Must(t)(b.Lock(background))
	<-dead.Context().Done()
	counts := func(want int) func() bool {
		return func() bool {
			n, err := kit.HoldCount(b, dead.Owner())
			return err == nil && n == want
		}
	}
	kit.WaitFor(t, "the end of the lease", counts(0))
	kit.WantError(t, dead.Unlock(), holdfast.ErrLost)
	again := kit.Must(t)(a.Lock(holdfast.WithOwner(background, dead.Owner())))
	kit.WaitFor(t, "one hold", counts(1))
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
	wantDid(t, false)(tool.RLocker().ForceUnlock(background))
	r := kit.Must(t)(m.RLock(w.Context()))
	wantDid(t, true)(tool.RLocker().ForceUnlock(background))
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	if found, err := tool.Inspect(background); err != nil || len(found.Holders) != 1 || found.Holders[0].Mode != holdfast.ModeWrite {
		t.Errorf("the writer went with the readers: %+v, %v", found, err)
	}
	r = kit.Must(t)(m.RLock(w.Context()))
	wantDid(t, true)(tool.ForceUnlock(background))
	kit.WantError(t, w.Unlock(), holdfast.ErrLost)
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	r = kit.Must(t)(m.RLock(background))
	wantDid(t, false)(tool.ForceUnlock(background))
	if found, err := tool.Inspect(background); err != nil || !found.HeldBy(r.Owner()) {
		t.Errorf("a reader went without a writer: %+v, %v", found, err)
	}
	kit.Unlock(t, r)
	nothingLeft(t, p, name)
}

// addReaders writes so many readers into a read-write lock, without the library, whose
// read holds live for so long; 0 makes dead ones. They are holdfast's, as their
// ids say.
func addReaders(t *testing.T, rdb *redis.Client, name, prefix string, n int, lives time.Duration) (owners []string) {
	t.Helper()
	pipe := rdb.Pipeline()
	pipe.HSet(background, name, "mode", "read")
	for i := range n {
		owner := fmt.Sprintf("%s0000000-0000-8000-8000-%012d:1", prefix, i)
		owners = append(owners, owner)
		pipe.HSet(background, name, owner, "1")
		if lives > 0 {
			pipe.Set(background, kit.ReadHold(name, owner, 1), "1", lives)
		}
	}
	pipe.PExpire(background, name, max(lives, time.Minute))
	_, err := pipe.Exec(background)
	kit.OK(t, err)
	return owners
}

// looking are the commands that look at readers, or change what they find.
var looking = []string{"hget", "pttl", "exists", "hdel", "del"}

// executed returns how often the server executes these commands meanwhile.
func executed(t *testing.T, p *kit.Platform, commands []string, meanwhile func()) (calls int) {
	t.Helper()
	count := func() (calls int) {
		for line := range strings.Lines(p.Do(t, "", "INFO", "commandstats")[0]) {
			command, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if n, _, _ := strings.Cut(stats, ","); slices.Contains(commands, command) {
				calls += kit.Number(n)
			}
		}
		return calls
	}
	before := count()
	meanwhile()
	return count() - before
}

// One reader leaves beside many. What that costs does not grow with them, whoever
// has the longest lease, and whether they live or not.
func TestLeavingReaderLooksAtFewOthers(t *testing.T) {
	t.Parallel()
	_, p, rdb := started(t)
	c := p.Client(t)
	for what, others := range map[string][2]time.Duration{
		"as long":   {50 * time.Second, 50 * time.Second},
		"longer":    {time.Hour, time.Hour},
		"shorter":   {20 * time.Second, 20 * time.Second},
		"half dead": {0, 50 * time.Second},
		"dead":      {0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			name := kit.Fresh()
			addReaders(t, rdb, name, "a", 200, others[0])
			addReaders(t, rdb, name, "b", 200, others[1])
			for range 5 {
				h := kit.Must(t)(kit.Reader()(c, name).Lock(background, holdfast.FixedLease(time.Minute)))
				if n := executed(t, p, looking, func() { kit.Unlock(t, h) }); n > 100 {
					t.Errorf("%d commands", n)
				}
			}
		})
	}
}

// How long a lock lives after the reader with the longest lease, a minute, has
// left: it may stay so if somebody reads for half of that at least, or if they
// are too many to look at, and else lives as long as the longest of them. The
// dead go.
func TestReadLockAfterTheLongestReader(t *testing.T) {
	t.Parallel()
	_, p, rdb := started(t)
	c := p.Client(t)
	const most = 16 // others that are looked at
	for _, row := range []struct {
		what        string
		dead, alive int
		lives       time.Duration // of those who are alive
		want        time.Duration
		fields      int // that remain
		told        int // how often it is announced
	}{
		{"half as long", 3, 3, 35 * time.Second, time.Minute, 3, 0},
		{"shorter", 3, 3, 25 * time.Second, 25 * time.Second, 3, 1},
		{"shorter, as many as are looked at", 0, most, 25 * time.Second, 25 * time.Second, most, 1},
		{"shorter, too many", 0, most + 1, 25 * time.Second, time.Minute, most + 1, 0},
		{"dead", most, 0, 0, 0, 0, 1},
		{"too many dead", most + 1, 0, 0, time.Minute, 1, 1},
		{"nobody", 0, 0, 0, 0, 0, 1},
	} {
		t.Run(row.what, func(t *testing.T) {
			name := kit.Fresh()
			addReaders(t, rdb, name, "a", row.dead, 0)
			addReaders(t, rdb, name, "b", row.alive, row.lives)
			told := executed(t, p, []string{"publish"}, func() {
				kit.Unlock(t, kit.Must(t)(kit.Reader()(c, name).Lock(background, holdfast.FixedLease(time.Minute))))
			})
			if told != row.told {
				t.Errorf("it was announced %d times, want %d", told, row.told)
			}
			do := p.Ask(t, name)
			if got := kit.PTTL(do, name); got > row.want || got < row.want-10*time.Second {
				t.Errorf("it lives for %v, want %v", got, row.want)
			}
			left := kit.Pairs(do, name)
			delete(left, "mode")
			if len(left) != row.fields {
				t.Errorf("%d readers stand there, want %d", len(left), row.fields)
			}
		})
	}
}

// A writer who is refused drops the dead that it has met, so that the next try
// does not look at them again.
func TestRefusedWriterDropsTheDead(t *testing.T) {
	t.Parallel()
	_, p, rdb := started(t)
	name := kit.Fresh()
	addReaders(t, rdb, name, "a", 100, 0)
	alive := addReaders(t, rdb, name, "b", 1, time.Minute)
	l := kit.Writer()(p.Client(t, holdfast.WithoutIdentity()), name) // its own commands are counted
	refused := func() {
		_, err := l.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
	}
	refused()
	refused()
	if calls := executed(t, p, looking, refused); calls > 10 {
		t.Errorf("%d commands", calls)
	}
	if left := kit.ReadCounts(p.Ask(t, name), name); len(left) != 1 || left[alive[0]] != 1 {
		t.Errorf("readers: %v", left)
	}
}
