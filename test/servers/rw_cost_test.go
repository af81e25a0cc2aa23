package servers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

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
	if _, err := pipe.Exec(background); err != nil {
		t.Fatal(err)
	}
	return owners
}

// dearest returns how many commands the dearest of some releases of a read hold
// calls.
func dearest(t *testing.T, p *kit.Platform, l kit.AnyLock) (most int) {
	t.Helper()
	for range 5 {
		h := kit.Must(t)(l.Lock(background, holdfast.FixedLease(time.Minute)))
		before := looks(t, p)
		kit.Unlock(t, h)
		most = max(most, looks(t, p)-before)
	}
	return most
}

// looks returns how often the server has executed what looks at readers, or
// changes what it finds.
func looks(t *testing.T, p *kit.Platform) int {
	t.Helper()
	return executed(t, p, "hget", "pttl", "exists", "hdel", "del")
}

func published(t *testing.T, p *kit.Platform) int {
	t.Helper()
	return executed(t, p, "publish")
}

// executed returns how often the server has executed these commands.
func executed(t *testing.T, p *kit.Platform, commands ...string) (calls int) {
	t.Helper()
	for line := range strings.Lines(p.Do(t, "", "INFO", "commandstats")[0]) {
		command, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if slices.Contains(commands, command) {
			n, _, _ := strings.Cut(stats, ",")
			calls += kit.Number(n)
		}
	}
	return calls
}

// One reader leaves beside many. What that costs does not grow with them, whoever
// has the longest lease, and whether they live or not.
func TestLeavingReaderLooksAtFewOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	p := kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s))
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
			if most := dearest(t, p, kit.Reader()(c, name)); most > 100 {
				t.Errorf("%d commands", most)
			} else {
				t.Log(most, "commands")
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
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	p := kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s))
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
			before := published(t, p)
			kit.Unlock(t, kit.Must(t)(kit.Reader()(c, name).Lock(background, holdfast.FixedLease(time.Minute))))
			do := p.Ask(t, name)
			if told := published(t, p) - before; told != row.told {
				t.Errorf("it was announced %d times, want %d", told, row.told)
			}
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
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	p := kit.GoRedis("standalone", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s))
	name := kit.Fresh()
	addReaders(t, rdb, name, "a", 100, 0)
	alive := addReaders(t, rdb, name, "b", 1, time.Minute)
	l := kit.Writer()(p.Client(t, holdfast.WithoutIdentity()), name) // its own commands are counted
	for range 2 {
		_, err := l.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
	}
	before := looks(t, p)
	_, err := l.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	if calls := looks(t, p) - before; calls > 10 {
		t.Errorf("%d commands", calls)
	}
	if left := kit.ReadCounts(p.Ask(t, name), name); len(left) != 1 || left[alive[0]] != 1 {
		t.Errorf("readers: %v", left)
	}
}
