package survey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	javaOwner   = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
	otherJava   = "1b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:1"
	patience    = 30 * time.Second
	longLease   = time.Minute
	farDeadline = 5 * time.Minute
)

// world is a Redis with a client of holdfast's.
type world struct {
	*testing.T

	ctx    context.Context
	rdb    redis.UniversalClient
	client *holdfast.Client
}

// onEach runs a test on a server alone, and on a cluster.
func onEach(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(newWorld(t, redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(newWorld(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t, 3, 0).Addrs()})))
	})
}

func newWorld(t *testing.T, rdb redis.UniversalClient) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), farDeadline)
	t.Cleanup(cancel)
	client, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithLease(longLease))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), rdb.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{t, ctx, rdb, client}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) do(args ...any) {
	w.Helper()
	w.must(w.rdb.Do(w.ctx, args...).Err())
}

func (w *world) lock(l holdfast.Locker) *holdfast.Hold {
	w.Helper()
	hold, err := l.Lock(w.ctx)
	w.must(err)
	return hold
}

// waits has somebody wait until the test ends.
func (w *world) waits(wait func(context.Context) error) {
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = wait(ctx) }()
	w.Cleanup(func() { cancel(); <-ended })
}

func locking(l holdfast.Locker) func(context.Context) error {
	return func(ctx context.Context) error { _, err := l.Lock(ctx); return err }
}

func (w *world) read(name string) survey.Lock {
	w.Helper()
	l, err := survey.Read(w.ctx, w.rdb, name)
	if err != nil {
		w.Fatalf("%q: %v", name, err)
	}
	return l
}

// becomes reads a lock until it is as wanted.
func (w *world) becomes(name, what string, as func(survey.Lock) bool) survey.Lock {
	w.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l, err := survey.Read(w.ctx, w.rdb, name)
		if err == nil && as(l) {
			return l
		}
		if time.Since(began) > patience {
			w.Fatalf("%q is not %s: %+v, %v", name, what, l, err)
		}
	}
}

// otherClient is a second process of holdfast's, as far as Redis sees.
func (w *world) otherClient() *holdfast.Client {
	w.Helper()
	client, err := holdfast.New(goredisdriver.New(w.rdb), holdfast.WithLease(longLease))
	w.must(err)
	w.Cleanup(func() { _ = client.Close() })
	return client
}

// TestRead reads each kind as the library makes it.
func TestRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*world){
		"mutex": readMutex, "line": readLine, "fenced": readFenced, "fair": readFair, "read-write": readRW, "writers first": readWritersFirst,
		"permits": readPermits, "semaphore": readSemaphore, "latch": readLatch, "number": readNumber, "nothing": readNothing,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); onEach(t, test) })
	}
}

func readMutex(w *world) {
	for _, name := range []string{"job", "{tag}:job", "a name, \x1b[31mred\n\xff"} {
		hold := w.lock(w.client.NewMutex(name))
		w.waits(locking(w.otherClient().NewMutex(name)))
		l := w.becomes(name, "waited for", func(l survey.Lock) bool { return l.Line == 1 && l.Waiting == 1 })
		if l.Name != name || l.Kind != survey.Mutex || l.State != survey.Held || !l.Ours || len(l.Holders) != 1 || l.HolderCount != 1 || l.Token != 0 {
			w.Errorf("%+v", l)
		}
		h := l.Holders[0]
		if h.Owner != hold.Owner().String() || h.Count != 1 || h.Mode != "" || h.TTL <= 0 || h.TTL > longLease || l.TTL != h.TTL || l.Left() != h.TTL {
			w.Errorf("%+v", h)
		}
		w.becomes(name, "listened to by its holder, too", func(l survey.Lock) bool { return l.Listeners == 1 && l.Waiting == 1 })
		l = w.becomes(name, "held by somebody known, for a while", func(l survey.Lock) bool { return l.Longest() > 0 })
		if h := l.Holders[0]; h.Who.Program == "" || h.Who.PID != os.Getpid() || h.Since.After(l.At) || l.Longest() > patience {
			w.Errorf("%+v", h)
		}
		if off := time.Since(l.At); off < -time.Minute || off > time.Minute {
			w.Errorf("read at %v", l.At)
		}
	}
	// One of Redisson's, held twice, and for ever.
	w.do("HSET", "java", javaOwner, 2)
	if l := w.read("java"); l.Kind != survey.Mutex || l.Holders[0].Count != 2 || l.TTL != holdfast.NoExpiry || l.Left() != holdfast.NoExpiry || l.Waiting != 0 {
		w.Errorf("%+v", l)
	}
}

// readLine reads who stands in line for a mutex, in which order, and who waits outside of it.
func readLine(w *world) {
	hold := w.lock(w.client.NewMutex("job", holdfast.Fenced()))
	var owners []string
	for i := range 3 {
		c := w.otherClient()
		w.waits(locking(c.NewMutex("job", holdfast.Fenced())))
		l := w.becomes("job", "waited for", func(l survey.Lock) bool {
			return l.Line == i+1 && l.Waiting == i+1 && len(l.Waiters) == i+1 && !l.Waiters[i].Who.IsZero()
		})
		owners = append(owners, l.Waiters[i].Owner)
	}
	wait := w.rdb.Subscribe
	if _, ok := w.rdb.(*redis.ClusterClient); ok && redistest.AtLeast(w.T, 7, 0) {
		wait = w.rdb.SSubscribe
	}
	one := wait(w.ctx, protocol.LockChannel("job"))
	defer one.Close()
	l := w.becomes("job", "waited for by one of Redisson's, too", func(l survey.Lock) bool { return l.Waiting == 4 })
	if l.Kind != survey.Mutex || l.State != survey.Held || l.Line != 3 || l.AllInLine() || len(l.Waiters) != 3 || l.Holders[0].Owner != hold.Owner().String() {
		w.Fatalf("%+v", l)
	}
	for i, waiter := range l.Waiters {
		if waiter.Owner != owners[i] || waiter.Silent || waiter.Who.PID != os.Getpid() {
			w.Errorf("%d: %+v, want %s", i, waiter, owners[i])
		}
		w.hasWaited(l, i)
		if i > 0 && waiter.Since.Before(l.Waiters[i-1].Since) {
			w.Errorf("%d has waited for longer than the one before it: %+v", i, l.Waiters)
		}
	}
	if found := w.scan(survey.Options{}); len(found) != 1 || found["job"] != survey.Mutex {
		w.Errorf("%v", found)
	}
	// A line alone is a lock, too. One in it that has not asked for long is silent.
	w.do("ZADD", protocol.WaitlistKey("free"), 1, owners[0], 2, owners[1], 3, javaOwner)
	w.do("HSET", protocol.RequestsKey("free"), owners[0], fmt.Sprintf("x 3000 %d 0", l.At.Add(-time.Second).UnixMilli()), owners[1], fmt.Sprintf("x 3000 %d 0", l.At.Add(time.Hour).UnixMilli()))
	l = w.read("free")
	if l.Kind != survey.Mutex || l.State != survey.Free || l.Line != 3 || l.Waiting != 3 || !l.AllInLine() {
		w.Fatalf("%+v", l)
	}
	for i, silent := range []bool{true, false, false} {
		if l.Waiters[i].Silent != silent {
			w.Errorf("%d: %+v", i, l.Waiters[i])
		}
	}
	// What one alone has asked is no lock that it holds.
	w.do("HDEL", protocol.RequestsKey("free"), owners[1])
	if _, err := survey.Read(w.ctx, w.rdb, protocol.RequestsKey("free")); !errors.Is(err, survey.ErrOtherKind) {
		w.Error(err)
	}
	if found := w.scan(survey.Options{All: true}); len(found) != 2 || found["free"] != survey.Mutex {
		w.Errorf("%v", found)
	}
	// While one of Redisson's holds the lock, the first of those in line listen, too.
	w.do("HSET", "java", javaOwner, 1)
	w.waits(locking(w.client.NewMutex("java")))
	w.becomes("java", "waited for by one who listens", func(l survey.Lock) bool { return l.Line == 1 && l.Listeners == 1 && l.Waiting == 1 })
}

// hasWaited checks that it is known how long a waiter has waited.
func (w *world) hasWaited(l survey.Lock, i int) {
	w.Helper()
	since := l.Waiters[i].Since
	waited := l.At.Sub(since) // below 0 if it began to wait between the two requests of a look
	if since.IsZero() || waited.Abs() > patience || l.WaitedFor(l.Waiters[i]) != max(0, waited) {
		w.Errorf("%d: it waits since %v, by now %v for %v", i, since, l.At, l.WaitedFor(l.Waiters[i]))
	}
}

func readFenced(w *world) {
	m := w.client.NewMutex("job", holdfast.Fenced())
	hold := w.lock(m)
	if l := w.read("job"); l.Kind != survey.Mutex || l.Token != hold.Token() || l.State != survey.Held {
		w.Errorf("%+v", l)
	}
	token := hold.Token()
	w.must(hold.Unlock())
	if l := w.read("job"); l.Kind != survey.Mutex || l.Token != token || l.State != survey.Free || l.HolderCount != 0 || l.TTL != 0 {
		w.Errorf("%+v", l)
	}
}

func readFair(w *world) {
	fair := w.client.NewFairMutex("job")
	hold := w.lock(fair)
	w.becomes("job", "known as fair by its holder or its heartbeats", func(l survey.Lock) bool { return l.Kind == survey.Fair && l.State == survey.Held })
	second := w.otherClient()
	w.waits(locking(second.NewFairMutex("job")))
	l := w.becomes("job", "waited for since when is known", func(l survey.Lock) bool { return len(l.Waiters) == 1 && !l.Waiters[0].Since.IsZero() })
	w.hasWaited(l, 0)
	since, asked := l.Waiters[0].Since, w.rdb.HGet(w.ctx, protocol.RequestsKey("job"), l.Waiters[0].Owner).Val()
	w.becomes("job", "asked for again", func(survey.Lock) bool {
		return w.rdb.HGet(w.ctx, protocol.RequestsKey("job"), l.Waiters[0].Owner).Val() != asked
	})
	w.do("RPUSH", protocol.FairQueueKey("job"), javaOwner, otherJava)
	w.do("ZADD", protocol.FairTimeoutsKey("job"), time.Now().Add(time.Hour).UnixMilli(), javaOwner)
	l = w.read("job")
	if !l.Waiters[0].Since.Equal(since) || !l.Waiters[1].Since.IsZero() || l.WaitedFor(l.Waiters[1]) != 0 {
		w.Errorf("since %v: %+v", since, l.Waiters)
	}
	if l.Kind != survey.Fair || l.Waiting != 3 || len(l.Waiters) != 3 || l.Waiters[1].Owner != javaOwner || l.Holders[0].Owner != hold.Owner().String() {
		w.Fatalf("%+v", l)
	}
	for i, silent := range []bool{false, false, true} { // nothing speaks for the last one
		if l.Waiters[i].Silent != silent {
			w.Errorf("%d: %+v", i, l.Waiters[i])
		}
	}
	w.becomes("job", "without an answer from the first", func(l survey.Lock) bool {
		if !l.Waiters[0].Silent { // it lives, and may have asked between these two
			w.do("ZADD", protocol.FairHeartbeatsKey("job"), "XX", 1, l.Waiters[0].Owner)
		}
		return l.Waiters[0].Silent
	})
	// A line alone is a lock, too.
	w.do("RPUSH", protocol.FairQueueKey("free"), javaOwner)
	if l := w.read("free"); l.Kind != survey.Fair || l.State != survey.Free || l.Waiting != 1 {
		w.Errorf("%+v", l)
	}
}

func readRW(w *world) {
	rw := w.client.NewRWMutex("job")
	first, second := w.lock(rw.RLocker()), w.lock(w.otherClient().NewRWMutex("job").RLocker())
	w.do("HSET", "job", javaOwner, 1) // its keys are gone, and it is believed in
	dead := strings.Replace(javaOwner, "4e5f", "8e5f", 1)
	w.do("HSET", "job", dead, 1) // so are its, and it is not
	l := w.read("job")
	if l.Kind != survey.RW || l.Mode != survey.Reads || l.State != survey.Held || l.HolderCount != 3 || len(l.Holders) != 3 {
		w.Fatalf("%+v", l)
	}
	var owners []string
	for _, h := range l.Holders {
		owners = append(owners, h.Owner)
		if h.Mode != survey.Reads || h.TTL <= 0 || h.TTL > longLease || h.Owner == javaOwner && h.TTL > 30*time.Second {
			w.Errorf("%+v", h)
		}
	}
	if want := []string{first.Owner().String(), second.Owner().String(), javaOwner}; !sameElements(owners, want) {
		w.Errorf("held by %q, not %q", owners, want)
	}
	write := w.client.NewRWMutex("written")
	hold := w.lock(write)
	w.waits(locking(w.otherClient().NewRWMutex("written")))
	nested, err := write.RLock(hold.Context())
	w.must(err)
	l = w.becomes("written", "waited for", func(l survey.Lock) bool { return l.Waiting >= 1 && l.Line == 1 })
	w.hasWaited(l, 0)
	if l.Mode != survey.Writes || l.HolderCount != 2 || len(l.Holders) != 2 || l.Holders[0].Mode != survey.Writes || l.Holders[1].Mode != survey.Reads ||
		l.Holders[0].Owner != nested.Owner().String() {
		w.Errorf("%+v", l)
	}
}

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func readWritersFirst(w *world) {
	w.lock(w.client.NewRWMutex("job").RLocker())
	other := w.otherClient()
	w.waits(locking(other.NewRWMutex("job", holdfast.WritersFirst())))
	l := w.becomes("job", "waited for", func(l survey.Lock) bool { return len(l.Waiters) == 1 })
	if l.Kind != survey.RW || l.Waiters[0].Mode != survey.Writes || l.Waiting < 1 || l.Waiters[0].Owner == l.Holders[0].Owner {
		w.Errorf("%+v", l)
	}
	// A reader makes way, and stands in line behind it; one of another client that came before goes after it, too.
	writer := l.Waiters[0].Owner
	w.waits(locking(w.otherClient().NewRWMutex("job").RLocker()))
	w.becomes("job", "waited for by a reader in line", func(l survey.Lock) bool { return l.Line == 2 })
	w.do("ZADD", protocol.WaitlistKey("job"), 1, javaOwner)
	l = w.read("job")
	w.hasWaited(l, 0)
	if len(l.Waiters) != 3 || l.Waiters[0].Owner != writer || l.Waiters[1].Owner != javaOwner || l.Waiters[1].Mode != survey.Reads ||
		l.Waiters[2].Mode != survey.Reads || l.Waiters[2].Who.PID != os.Getpid() {
		w.Errorf("%+v", l)
	}
	// A line with a writer in it is a read-write lock's.
	w.do("ZADD", protocol.WaitlistKey("free"), 1, javaOwner, 2, protocol.WriterField(writer))
	l = w.read("free")
	if l.Kind != survey.RW || l.State != survey.Free || l.Line != 2 || !l.AllInLine() || l.Waiters[1].Owner != writer || l.Waiters[1].Mode != survey.Writes {
		w.Errorf("%+v", l)
	}
}

func readPermits(w *world) {
	s := w.client.NewPermitSemaphore("sem")
	w.must(s.SetPermits(w.ctx, 3))
	hold, err := s.Acquire(w.ctx, 2)
	w.must(err)
	now := time.Now()
	w.do("ZADD", protocol.PermitsKey("sem"), now.Add(-time.Second).UnixMilli(), "0123456789abcdef")
	w.waits(func(ctx context.Context) error {
		_, err := w.otherClient().NewPermitSemaphore("sem").Acquire(ctx, 3)
		return err
	})
	l := w.becomes("sem", "waited for", func(l survey.Lock) bool { return l.Waiting == 1 && l.Line == 1 && len(l.Waiters) == 1 })
	w.hasWaited(l, 0)
	if l.Kind != survey.Permits || l.State != survey.Held || l.Taken != 2 || l.HolderCount != 2 || len(l.Holders) != 2 || l.Waiters[0].Wants != 3 || l.Waiters[0].Who.IsZero() {
		w.Errorf("%+v", l)
	}
	// While one of Redisson's holds a permit, the first listen, too.
	w.do("ZADD", protocol.PermitsKey("sem"), now.Add(time.Hour).UnixMilli(), "fedcba9876543210")
	l = w.becomes("sem", "listened at", func(l survey.Lock) bool { return l.Listeners == 1 })
	if l.Waiting != 1 || l.Line != 1 || len(l.Holders) != 3 {
		w.Errorf("%+v", l)
	}
	w.do("ZREM", protocol.PermitsKey("sem"), "fedcba9876543210")
	ids, want := []string{l.Holders[0].Owner, l.Holders[1].Owner}, hold.PermitIDs()
	if !sameElements(ids, []string{want[0].String(), want[1].String()}) {
		w.Errorf("held by %q, not %q", ids, want)
	}
	// A hold may be renewed between the steps of a read: its time then counts from before that.
	if h := l.Holders[0]; h.Count != 1 || h.TTL <= 0 || h.TTL > 2*longLease {
		w.Errorf("%+v", h)
	}
	// One that has expired is available, one without a lease never is, and there are more than there should be.
	w.do("SET", "java", 1)
	w.do("ZADD", protocol.PermitsKey("java"), now.Add(-time.Second).UnixMilli(), "0123456789abcdef", 922337203685477, "fedcba9876543210")
	if l := w.read("java"); l.Available != 2 || l.Taken != 1 || l.Total != 3 || len(l.Holders) != 1 || l.Holders[0].TTL != holdfast.NoExpiry {
		w.Errorf("%+v", l)
	}
	w.do("SET", "java", -4)
	if l := w.read("java"); l.Available != -3 || l.Total != -2 {
		w.Errorf("%+v", l)
	}
	// A timeout that is somebody else's.
	w.do("SET", "theirs", 5)
	w.do("ZADD", "{theirs}:timeout", now.Add(time.Hour).UnixMilli(), "session 1")
	if l := w.read("theirs"); l.Kind != survey.Number || l.Ours || l.Count != 5 {
		w.Errorf("%+v", l)
	}
}

func readSemaphore(w *world) {
	s := w.client.NewUnleasedSemaphore("sem")
	_, err := s.TrySetPermits(w.ctx, 1)
	w.must(err)
	w.must(s.Acquire(w.ctx, 1))
	w.waits(func(ctx context.Context) error { return w.otherClient().NewUnleasedSemaphore("sem").Acquire(ctx, 1) })
	l := w.becomes("sem", "waited for", func(l survey.Lock) bool { return l.Waiting == 1 && len(l.Waiters) == 1 })
	if !l.Waiters[0].Since.IsZero() {
		w.Errorf("%+v", l.Waiters)
	}
	if l.Kind != survey.Semaphore || l.State != survey.Exhausted || l.Available != 0 || !l.Ours || l.HolderCount != 0 {
		w.Errorf("%+v", l)
	}
}

func readLatch(w *world) {
	latch := w.client.NewLatch("latch")
	_, err := latch.TrySetCount(w.ctx, 2)
	w.must(err)
	if l := w.read("latch"); l.Kind != survey.Latch || !l.Ours || l.Count != 2 || l.State != survey.Closed {
		w.Errorf("a latch that was just set: %+v", l)
	}
	w.do("DEL", protocol.LatchZeroKey("latch")) // as after a minute
	if l := w.read("latch"); l.Kind != survey.Number || !l.Ours || l.Count != 2 || l.State != survey.Unknown {
		w.Errorf("a latch that nobody waits for: %+v", l)
	}
	w.waits(func(ctx context.Context) error { return w.otherClient().NewLatch("latch").Await(ctx) })
	l := w.becomes("latch", "waited for", func(l survey.Lock) bool { return l.Waiting == 1 })
	if l.Kind != survey.Latch || l.State != survey.Closed || l.Count != 2 {
		w.Errorf("%+v", l)
	}
	w.must(latch.CountDown())
	w.must(latch.CountDown())
	if l := w.read("latch"); l.Kind != survey.Latch || l.State != survey.Open || l.Count != 0 {
		w.Errorf("%+v", l)
	}
}

func readNumber(w *world) {
	w.do("SET", "hits", 42, "EX", 100)
	l := w.read("hits")
	if l.Kind != survey.Number || l.Ours || l.Count != 42 || l.TTL <= 0 || l.State != survey.Unknown {
		w.Errorf("%+v", l)
	}
}

func readNothing(w *world) {
	w.do("SET", "text", strings.Repeat("9", 5000))
	w.do("HSET", "user", "name", "Ann")
	w.do("RPUSH", "list", "x")
	for _, name := range []string{"text", "user", "list"} {
		if l, err := survey.Read(w.ctx, w.rdb, name); !errors.Is(err, survey.ErrOtherKind) {
			w.Errorf("%q: %+v, %v", name, l, err)
		}
	}
	if l, err := survey.Read(w.ctx, w.rdb, "nothing"); !errors.Is(err, survey.ErrNotFound) {
		w.Errorf("%+v, %v", l, err)
	}
}

// TestIdentity reads who holds, and since when, from what clients write about themselves.
func TestIdentity(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		const owner, id = "99f17b91-c6cc-889e-88f6-8265bee545cf:12", "99f17b91c6cc889e0123456789abcdef"
		now, err := w.rdb.Time(w.ctx).Result()
		w.must(err)
		w.do("HSET", "holdfast_client:99f17b91-c6cc-889e", "program", "billing", "version", "v1.2.3", "host", "web-3", "pid", 4711,
			"since", now.Add(-time.Hour).UnixMilli(), owner+" job", now.Add(-time.Minute).UnixMilli(), id+" sem", now.Add(-time.Minute).UnixMilli())
		w.do("HSET", "job", owner, 1)
		w.do("HSET", "other", owner, 1)
		w.do("SET", "sem", 0)
		raw := string([]byte{0x99, 0xf1, 0x7b, 0x91, 0xc6, 0xcc, 0x88, 0x9e, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef})
		w.do("ZADD", protocol.PermitsKey("sem"), now.Add(time.Hour).UnixMilli(), raw)
		for _, name := range []string{"job", "sem"} {
			l := w.read(name)
			h := l.Holders[0]
			if h.Who.Program != "billing" || h.Who.Version != "v1.2.3" || h.Who.Host != "web-3" || h.Who.PID != 4711 || h.Who.IsZero() {
				w.Errorf("%+v", h)
			}
			if held := l.HeldFor(h); held < time.Minute-time.Second || held > 2*time.Minute || l.Longest() != held {
				w.Errorf("held for %v", held)
			}
		}
		if l := w.read("other"); l.Holders[0].Who.IsZero() || !l.Holders[0].Since.IsZero() || l.HeldFor(l.Holders[0]) != 0 {
			w.Errorf("%+v", l)
		}
		text, err := json.Marshal(w.read("job"))
		w.must(err)
		for _, want := range []string{`"kind":"mutex"`, `"state":"held"`, `"program":"billing"`, `"pid":4711`, `"host":"web-3"`, `"ttl_ms":-1`, `"held_ms":60`, `"waiters":[]`} {
			if !strings.Contains(string(text), want) {
				w.Errorf("no %s in %s", want, text)
			}
		}
		w.do("ZADD", protocol.WaitlistKey("job"), now.Add(-time.Minute).UnixMicro(), owner)
		text, err = json.Marshal(w.read("job"))
		w.must(err)
		if want := `"since":"` + now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.000Z07:00") + `","waited_ms":60`; !strings.Contains(string(text), want) {
			w.Errorf("no %s in %s", want, text)
		}
		// Anybody may write there.
		for _, score := range []string{"-4503599627370496", "-1e300", "0", "-inf", "+inf", "1e300", "0.5"} {
			w.do("ZADD", protocol.WaitlistKey("job"), score, owner)
			if l := w.read("job"); !l.Waiters[0].Since.IsZero() {
				w.Errorf("a score of %s is %v", score, l.Waiters[0].Since)
			}
		}
		w.do("DEL", protocol.WaitlistKey("job"))
		w.do("HSET", "holdfast_client:99f17b91-c6cc-889e", "host", strings.Repeat("h", 100_000), "pid", -5,
			"since", "-9223372036854775808", owner+" job", "-9223372036854775807")
		l := w.read("job")
		if h := l.Holders[0]; len(h.Who.Host) > 128 || h.Who.PID != 0 || !h.Who.Since.IsZero() || l.HeldFor(h) != 0 {
			w.Errorf("%d bytes, pid %d, since %v, held for %v", len(h.Who.Host), h.Who.PID, h.Who.Since, l.HeldFor(h))
		}
	})
}

// TestNamesAway has a lock read though the node is away that knows who its holder is.
func TestNamesAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		node.Cli(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	w := newWorld(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true}))
	uuid := func(i int) string { return fmt.Sprintf("%08x-c6cc-889e-88f6-8265bee545cf", i) }
	away, i := cluster.NodeFor(w, "job"), 0
	for away == cluster.NodeFor(w, "job") {
		i++
		away = cluster.NodeFor(w, protocol.ClientKey(uuid(i)+":1"))
	}
	w.do("HSET", "job", uuid(i)+":1", 1)
	if l := w.read("job"); l.HolderCount != 1 {
		t.Fatalf("%+v", l)
	}
	away.Kill()
	if l := w.read("job"); l.State != survey.Held || l.Holders[0].Owner != uuid(i)+":1" {
		t.Errorf("%+v", l)
	}
}

// vanishing deletes keys, and puts others there, between the question what stands at them and the ones for what it is.
type vanishing struct{ then func() }

func (*vanishing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*vanishing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (v *vanishing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if f := v.then; f != nil && slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == "type" }) {
			v.then = nil
			f()
		}
		return err
	}
}

// TestGivenBackMeanwhile has locks given back while they are read: then nobody holds them, and they are not of
// another kind.
func TestGivenBackMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	w := newWorld(t, rdb)
	hook := &vanishing{}
	rdb.AddHook(hook)
	for name, create := range map[string][]string{
		"mutex": {"HSET", "mutex", javaOwner, "1"}, "rw": {"HSET", "rw", "mode", "write", javaOwner + ":write", "1"}, "latch": {"SET", "latch", "1"},
	} {
		server.Cli(t, create...)
		hook.then = func() { server.Cli(t, "DEL", name) }
		if l, err := survey.Read(w.ctx, rdb, name); !errors.Is(err, survey.ErrNotFound) || hook.then != nil {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	server.Cli(t, "HSET", "fair", javaOwner, "1")
	server.Cli(t, "RPUSH", protocol.FairQueueKey("fair"), otherJava)
	hook.then = func() { server.Cli(t, "DEL", "fair") }
	if l := w.read("fair"); l.Kind != survey.Fair || l.State != survey.Free || l.Waiting != 1 || l.HolderCount != 0 {
		t.Errorf("%+v", l)
	}
}

// TestScan finds each kind among other people's data.
func TestScan(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		want := map[string]survey.Kind{
			"mutex": survey.Mutex, "fair": survey.Fair, "free fair": survey.Fair, "{rw}:1": survey.RW, "permits": survey.Permits,
			"semaphore": survey.Semaphore, "latch": survey.Latch, "called": survey.Number, "{x}": survey.Fair,
		}
		w.lock(w.client.NewMutex("mutex"))
		w.lock(w.client.NewFairMutex("fair"))
		w.do("RPUSH", protocol.FairQueueKey("fair"), javaOwner)
		w.do("RPUSH", protocol.FairQueueKey("free fair"), javaOwner)
		w.do("HSET", "{x}", javaOwner, 1)
		w.do("RPUSH", protocol.FairQueueKey("{x}"), otherJava)
		w.lock(w.client.NewRWMutex("{rw}:1").RLocker())
		w.must(w.client.NewPermitSemaphore("permits").SetPermits(w.ctx, 1))
		w.lock(w.client.NewPermitSemaphore("permits"))
		w.waits(func(ctx context.Context) error {
			return w.otherClient().NewUnleasedSemaphore("semaphore").Acquire(ctx, 1)
		})
		w.do("SET", "latch", 1) // before somebody waits: at zero nobody has to
		w.waits(func(ctx context.Context) error { return w.otherClient().NewLatch("latch").Await(ctx) })
		_, err := w.client.NewLatch("called").TrySetCount(w.ctx, 1)
		w.must(err)
		w.do("DEL", protocol.LatchZeroKey("called")) // as after a minute
		w.becomes("semaphore", "waited for", func(l survey.Lock) bool { return l.Kind == survey.Semaphore })
		w.becomes("latch", "waited for", func(l survey.Lock) bool { return l.Kind == survey.Latch })
		w.do("SET", protocol.TokenKey("fenced"), 7)
		for i := range 3000 { // several pages, on each node of a cluster
			w.do("SET", fmt.Sprintf("counter:%d", i), i)
		}
		for i := range 300 {
			w.do("HSET", fmt.Sprintf("user:%d", i), "id", i)
			w.do("HSET", fmt.Sprintf("mode:%d", i), "mode", "read", "at", i)
			w.do("ZADD", fmt.Sprintf("{user:%d}:timeout", i), i, "x")
		}
		w.do("ZADD", "{counter:1}:timeout", 1, "a session")
		if found := w.scan(survey.Options{}); !maps.Equal(found, want) {
			w.Errorf("found %v, want %v", found, want)
		}
		held := map[string]survey.Kind{"mutex": survey.Mutex, "fair": survey.Fair, "{rw}:1": survey.RW, "permits": survey.Permits, "{x}": survey.Fair}
		if found := w.scan(survey.Options{Held: true}); !maps.Equal(found, held) {
			w.Errorf("held: %v, want %v", found, held)
		}
		for match, want := range map[string][]string{
			"*fair": {"fair", "free fair"}, "mutex": {"mutex"}, "[ms]*e*": {"mutex", "semaphore"}, "nothing": nil, "nothing*": nil,
			`{*`: {"{rw}:1", "{x}"}, "counter:7": {"counter:7"}, "user:7": nil,
		} {
			if found := w.scan(survey.Options{Match: match}); !sameElements(slices.Collect(maps.Keys(found)), want) {
				w.Errorf("%q: %v, want %v", match, found, want)
			}
		}
		for _, kind := range survey.Kinds() {
			var of []string
			for name, k := range want {
				if k == kind {
					of = append(of, name)
				}
			}
			if found := w.scan(survey.Options{Kinds: []survey.Kind{kind}}); !sameElements(slices.Collect(maps.Keys(found)), of) {
				w.Errorf("%s: %v, want %v", kind, found, of)
			}
		}
		all := maps.Clone(want)
		all["fenced"] = survey.Mutex
		for i := range 3000 {
			all["counter:"+strconv.Itoa(i)] = survey.Number
		}
		if found := w.scan(survey.Options{All: true}); !maps.Equal(found, all) {
			w.Errorf("all: %d, want %d", len(found), len(all))
		}
	})
}

// scan returns what is found, and that nothing was found twice.
func (w *world) scan(options survey.Options) map[string]survey.Kind {
	w.Helper()
	found := map[string]survey.Kind{}
	var done, total int64
	options.Progress = func(d, t int64) {
		if d < done || d > t {
			w.Errorf("%d of %d after %d", d, t, done)
		}
		done, total = d, t
	}
	_, err := survey.Scan(w.ctx, w.rdb, options, func(l survey.Lock) error {
		if found[l.Name] != "" {
			w.Errorf("%q was found twice", l.Name)
		}
		found[l.Name] = l.Kind
		return nil
	})
	w.must(err)
	if strings.Contains(options.Match, "*") && total == 0 {
		w.Error("no progress")
	}
	return found
}

// TestScanEnds stops a scan by an error of the caller's, and by its context.
func TestScanEnds(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		for i := range 50 {
			w.do("HSET", fmt.Sprintf("job:%d", i), javaOwner, 1)
		}
		enough := errors.New("enough")
		calls := 0
		_, err := survey.Scan(w.ctx, w.rdb, survey.Options{}, func(survey.Lock) error { calls++; return enough })
		if !errors.Is(err, enough) || calls != 1 {
			w.Errorf("%d calls, %v", calls, err)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		_, err = survey.Scan(ctx, w.rdb, survey.Options{}, func(survey.Lock) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) {
			w.Errorf("cancelled: %v", err)
		}
	})
}

// TestRights takes each right away that reading needs. The error names it.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWorld(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
	rw := w.client.NewRWMutex("rw")
	w.lock(rw.RLocker())
	w.lock(w.client.NewMutex("job"))
	w.must(w.client.NewPermitSemaphore("sem").SetPermits(w.ctx, 1))
	w.lock(w.client.NewPermitSemaphore("sem"))
	needed := []string{
		"time", "type", "pttl", "hget", "hlen", "hscan", "llen", "lrange", "zrange", "getrange", "zrangebyscore", "zcount", "exists", "hmget",
		"pubsub|numsub", "pubsub|channels", "scan", "hstrlen", "hkeys", "dbsize",
	}
	for _, without := range append([]string{""}, needed...) {
		rules := []any{"ACL", "SETUSER", "eyes", "reset", "on", ">s3cret", "%R~*", "+ping"}
		for _, right := range needed {
			if right != without {
				rules = append(rules, "+"+right)
			}
		}
		w.do(rules...)
		eyes := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "eyes", Password: "s3cret"})
		_, err := survey.Scan(w.ctx, eyes, survey.Options{All: true, Progress: func(int64, int64) {}}, func(survey.Lock) error { return nil })
		w.must(eyes.Close())
		var lacking *survey.RightError
		switch {
		case without == "" && err != nil:
			t.Errorf("with all rights: %v", err)
		case without != "" && (!errors.As(err, &lacking) || lacking.Command != strings.ToUpper(strings.ReplaceAll(without, "|", " "))):
			t.Errorf("without %s: %v", without, err)
		}
	}
	w.do("ACL", "SETUSER", "eyes", "reset", "on", ">s3cret", "%R~job", "+@all")
	eyes := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "eyes", Password: "s3cret"})
	defer eyes.Close()
	var lacking *survey.RightError
	if _, err := survey.Read(w.ctx, eyes, "job"); !errors.As(err, &lacking) || lacking.Key == "" {
		t.Errorf("without the keys beside it: %v", err)
	}
}

// TestRightsOnCluster does the same for what is asked only there.
func TestRightsOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for without, want := range map[string]string{"none": "", "pubsub|shardnumsub": "PUBSUB SHARDNUMSUB", "pubsub|shardchannels": "PUBSUB SHARDCHANNELS"} {
		for _, node := range cluster.Nodes {
			node.Cli(t, "ACL", "SETUSER", "eyes", "reset", "on", ">s3cret", "%R~*", "+@all")
			if want != "" {
				node.Cli(t, "ACL", "SETUSER", "eyes", "-"+without)
			}
		}
		eyes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "eyes", Password: "s3cret"})
		_, err := survey.Scan(t.Context(), eyes, survey.Options{}, func(survey.Lock) error { return nil })
		if err := eyes.Close(); err != nil {
			t.Fatal(err)
		}
		var lacking *survey.RightError
		if want == "" && err != nil || want != "" && (!errors.As(err, &lacking) || lacking.Command != want) {
			t.Errorf("without %s: %v", without, err)
		}
	}
}

// TestHugeNumbers: whatever numbers and times to live somebody has written, none overflows.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		const (
			longest = 9_200_000_000_000_000_000 // ms, which Redis takes
			most    = "9223372036854775807"
			least   = "-9223372036854775808"
		)
		w.do("HSET", "mutex", javaOwner, most)
		w.do("PEXPIRE", "mutex", longest)
		w.do("HSET", "rw", "mode", "read", javaOwner, "1")
		w.do("SET", "{rw}:"+javaOwner+":rwlock_timeout:1", "1", "PX", 10_000_000_000_000)
		w.do("SET", "most", most, "PX", 10_000_000_000_000)
		w.do("SET", "least", least)
		for _, name := range []string{"most", "least"} {
			w.do("ZADD", "{"+name+"}:timeout", "99999999999999", strings.Repeat("a", protocol.PermitID), "1", strings.Repeat("b", protocol.PermitID))
		}
		w.do("SET", "redisson_lock_token:{mutex}", least)
		for _, name := range []string{"mutex", "rw", "most", "least"} {
			l, err := survey.Read(w.ctx, w.rdb, name)
			if err != nil {
				w.Fatalf("%s: %v", name, err)
			}
			const age = 100 * 365 * 24 * time.Hour
			if l.TTL < age || len(l.Holders) != 1 || l.Holders[0].TTL < age || l.Left() < age || l.Waiting != 0 {
				w.Errorf("%s: %+v", name, l)
			}
			switch {
			case name == "most" && (l.Available != math.MaxInt64 || l.Total != math.MaxInt64 || l.Taken != 1):
				w.Errorf("%d, %d, %d", l.Available, l.Total, l.Taken)
			case name == "least" && (l.Available != math.MinInt64+1 || l.Total != math.MinInt64+2 || l.Taken != 1):
				w.Errorf("%d, %d, %d", l.Available, l.Total, l.Taken)
			}
			if text, err := json.Marshal(l); err != nil || strings.Contains(string(text), `"ttl_ms":0`) {
				w.Errorf("%s, %v", text, err)
			}
		}
	})
}
