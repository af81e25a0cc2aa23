package servers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A1: Inspect and ForceUnlock of the reader's side are about the readers alone, those of the lock about both sides. The lock
// is taken from a writer, with what it reads, and not from readers. A2: a reader whose lease has ended does not count.
func TestRWMutex(t *testing.T) {
	t.Parallel()
	_, p, _ := started(t)
	name := kit.Fresh()
	m, tool := p.Client(t).NewRWMutex(name), p.Client(t).NewRWMutex(name)
	state := func(modes ...string) {
		t.Helper()
		r, err := tool.RLocker().Inspect(background)
		if reading := slices.Contains(modes, "read"); err != nil || r.Locked() != reading || r.TTL > 0 != reading {
			t.Errorf("readers: %+v, %v", r, err)
		}
		both, err := tool.Inspect(background)
		var found []string
		for _, h := range both.Holders {
			found = append(found, h.Mode)
		}
		if err != nil || !slices.Equal(found, modes) || both.TTL > 0 != (len(modes) > 0) || both.Locked() != (len(modes) > 0) {
			t.Errorf("%+v, %v; want %q", both, err, modes)
		}
	}
	w := kit.Must(t)(m.Lock(background))
	state("write")
	kit.WantDid(t, false)(tool.RLocker().ForceUnlock(background))
	r := kit.Must(t)(m.RLock(w.Context()))
	state("write", "read")
	for side, count := range map[kit.Inspectable]int{m.RLocker(): 1, m: 2} {
		if n, err := kit.HoldCount(side, w.Owner()); n != count || err != nil {
			t.Errorf("count %d, want %d; %v", n, count, err)
		}
	}
	kit.WantDid(t, true)(tool.RLocker().ForceUnlock(background))
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	state("write")
	r = kit.Must(t)(m.RLock(w.Context()))
	kit.WantDid(t, true)(tool.ForceUnlock(background))
	kit.WantError(t, w.Unlock(), holdfast.ErrLost)
	kit.WantError(t, r.Unlock(), holdfast.ErrLost)
	state()

	dies := kit.Must(t)(m.RLock(background, holdfast.FixedLease(5*time.Second)))
	r = kit.Must(t)(tool.RLock(background))
	kit.WantDid(t, false)(tool.ForceUnlock(background))
	state("read", "read")
	<-dies.Context().Done()
	kit.WaitFor(t, "the end of the lease", func() bool {
		n, err := kit.HoldCount(tool, dies.Owner())
		return err == nil && n == 0
	})
	state("read")
	kit.WantError(t, dies.Unlock(), holdfast.ErrLost)
	kit.Unlock(t, r)
	nothingLeft(t, p, kit.MutexKind, name)
}

// addReaders writes so many readers into a read-write lock, without the library, whose
// read holds live for so long; 0 makes dead ones. They are holdfast's, as their
// ids say.
func addReaders(t *testing.T, rdb *redis.Client, name, prefix string, n int, lives time.Duration) {
	t.Helper()
	pipe := rdb.Pipeline()
	pipe.HSet(background, name, "mode", "read")
	for i := range n {
		owner := fmt.Sprintf("%s0000000-0000-8000-8000-%012d:1", prefix, i)
		pipe.HSet(background, name, owner, "1")
		if lives > 0 {
			pipe.Set(background, kit.ReadHold(name, owner, 1), "1", lives)
		}
	}
	pipe.PExpire(background, name, max(lives, time.Minute))
	_, err := pipe.Exec(background)
	kit.OK(t, err)
}

// executed returns how often the server executes any of these commands meanwhile.
func executed(t *testing.T, s *redistest.Server, meanwhile func(), commands ...string) (calls int) {
	t.Helper()
	for _, command := range commands {
		calls -= s.Calls(t, command)
	}
	meanwhile()
	for _, command := range commands {
		calls += s.Calls(t, command)
	}
	return calls
}

// looking are the commands that look at readers, or change what they find.
var looking = []string{"hget", "pttl", "exists", "hdel", "del"}

// How long a lock lives after the reader with the longest lease, a minute, has
// left: it may stay so if somebody reads for half of that at least, or if they
// are too many to look at, and else lives as long as the longest of them. The
// dead go. What that costs does not grow with the others.
func TestReadLockAfterTheLongestReader(t *testing.T) {
	t.Parallel()
	s, p, rdb := started(t)
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
		{"longer, too many", 0, 400, time.Hour, time.Hour, 400, 0},
		{"dead", most, 0, 0, 0, 0, 1},
		{"too many dead", 400, 0, 0, time.Minute, 400 - most, 1},
		{"nobody", 0, 0, 0, 0, 0, 1},
	} {
		t.Run(row.what, func(t *testing.T) {
			name := kit.Fresh()
			addReaders(t, rdb, name, "a", row.dead, 0)
			addReaders(t, rdb, name, "b", row.alive, row.lives)
			h := kit.Must(t)(kit.Reader()(c, name).Lock(background, holdfast.FixedLease(time.Minute)))
			looked := 0
			told := executed(t, s, func() { looked = executed(t, s, func() { kit.Unlock(t, h) }, looking...) }, "publish")
			if told != row.told || looked > 100 {
				t.Errorf("it was announced %d times, want %d, and took %d commands", told, row.told, looked)
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
	s, p, rdb := started(t)
	name := kit.Fresh()
	addReaders(t, rdb, name, "a", 100, 0)
	addReaders(t, rdb, name, "b", 1, time.Minute)
	l := kit.Writer()(p.Client(t, holdfast.WithoutIdentity()), name) // its own commands are counted
	refused := func() {
		_, err := l.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
	}
	refused()
	refused()
	if calls := executed(t, s, refused, looking...); calls > 10 {
		t.Errorf("%d commands", calls)
	}
	if left := kit.Pairs(p.Ask(t, name), name); len(left) != 2 { // the mode, and one who lives
		t.Errorf("readers: %v", left)
	}
}
