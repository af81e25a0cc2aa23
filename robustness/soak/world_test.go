package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

var (
	seed   = flag.Uint64("seed", 1, "what the faults of TestSoak are drawn from")
	length = flag.Duration("for", 5*time.Second, "how long TestSoak takes")
	cycles = flag.Int("cycles", 3000, "how many calls TestCancels makes")
)

// limits are those of clients.
type limits struct{ lease, timeout time.Duration }

var (
	// short lets holds be lost, and calls fail, in TestSoak.
	short = limits{lease: 3 * time.Second, timeout: time.Second}
	// long lets TestCancels find a hold that nobody gives back, and calls fail that were to succeed, however busy the machine is.
	long = limits{lease: 3 * time.Minute, timeout: 15 * time.Second}
)

// forgotten is after what time nothing is left of calls that were answered, or given up: their limits, or a place
// in a fair lock's line.
func (l limits) forgotten() time.Duration { return 10*time.Second + 3*l.timeout }

// idsLive is for how long Redis remembers a call: twelve timeouts and a second, and two minutes more if the client did not know
// yet what time it is there.
func (l limits) idsLive() time.Duration { return 12*l.timeout + time.Second + 2*time.Minute }

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// side is a process of its own, as far as Redis can tell: a Redis client, and holdfast on it.
type side struct {
	name   string
	proxy  *redistest.Proxy
	driver driver.Driver
	clients
	close func()
}

// clients are those of one process. A RedLock needs three, and stands in for one on three servers;
// the other kinds use the first.
type clients [3]*holdfast.Client

func newClients(t testing.TB, d driver.Driver, l limits) (c clients) {
	t.Helper()
	for i := range c {
		var err error
		if c[i], err = holdfast.New(d, holdfast.WithTimeout(l.timeout), holdfast.WithLease(l.lease)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Close closes all of them at once.
func (c clients) Close() error {
	var errs [len(c)]error
	var all sync.WaitGroup
	for i := range c {
		all.Go(func() { errs[i] = c[i].Close() })
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// openSide connects to a server through a proxy. wrap is what the driver is put into; nil: nothing.
func openSide(t testing.TB, server *redistest.Server, i int, l limits, wrap func(driver.Driver) driver.Driver) *side {
	t.Helper()
	s := &side{proxy: redistest.NewProxy(t, server.Addr())}
	if i%2 == 0 {
		rdb := redis.NewClient(&redis.Options{Addr: s.proxy.Addr(), ReadTimeout: l.timeout})
		s.name, s.driver, s.close = "go-redis", goredisdriver.New(rdb), func() {
			if err := rdb.Close(); err != nil {
				t.Error(err)
			}
		}
	} else {
		rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.proxy.Addr()}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: l.timeout})
		if err != nil {
			t.Fatal(err)
		}
		s.name, s.driver, s.close = "rueidis", rueidisdriver.New(rdb), rdb.Close
	}
	if wrap != nil {
		s.driver = wrap(s.driver)
	}
	s.clients = newClients(t, s.driver, l)
	return s
}

// held is what was acquired.
type held interface {
	Context() context.Context
	Unlock() error
}

// heldWithoutEnd is of a kind that has no holds: nothing ends it but its release.
type heldWithoutEnd struct{ release func() error }

func (heldWithoutEnd) Context() context.Context { return context.Background() }
func (h heldWithoutEnd) Unlock() error          { return h.release() }

// lockKind is a kind of lock in these tests.
type lockKind struct {
	name string
	// take acquires it for one of several callers, who are told apart by i; and all so that nobody else has it.
	take func(ctx context.Context, c clients, name string, i int) (held, error)
	all  func(ctx context.Context, c clients, name string) (held, error)
	room int // how many may be inside at once; readers: any number, but no writer beside
}

const (
	permits = 3 // of a semaphore
	readers = 0 // as a kind's room
	anybody = -1
)

var lockKinds = []lockKind{
	exclusive("mutex", func(c clients, name string) holdfast.Locker { return c[0].NewMutex(name) }),
	exclusive("nonreentrant", func(c clients, name string) holdfast.Locker { return c[0].NewMutex(name, holdfast.NonReentrant()) }),
	exclusive("fenced", func(c clients, name string) holdfast.Locker { return c[0].NewMutex(name, holdfast.Fenced()) }),
	exclusive("polling", func(c clients, name string) holdfast.Locker {
		return c[0].NewMutex(name, holdfast.Polling(5*time.Millisecond, 50*time.Millisecond))
	}),
	exclusive("fair", func(c clients, name string) holdfast.Locker { return c[0].NewFairMutex(name) }),
	exclusive("multi", func(c clients, name string) holdfast.Locker {
		return holdfast.NewMultiLock(c[0].NewMutex("{"+name+"}1"), c[0].NewMutex("{"+name+"}2"), c[0].NewFairMutex(name+"3"))
	}),
	exclusive("redlock", func(c clients, name string) holdfast.Locker {
		return holdfast.NewRedLock(c[0].NewMutex(name+"1"), c[1].NewMutex(name+"2"), c[2].NewMutex(name+"3"))
	}),
	{
		"rw", func(ctx context.Context, c clients, name string, i int) (held, error) {
			rw := c[0].NewRWMutex(name, holdfast.WritersFirst())
			if writes(i) {
				return lockOf(ctx, rw)
			}
			return lockOf(ctx, rw.RLocker())
		},
		func(ctx context.Context, c clients, name string) (held, error) {
			return lockOf(ctx, c[0].NewRWMutex(name))
		},
		readers,
	},
	{
		"permits", func(ctx context.Context, c clients, name string, _ int) (held, error) {
			return lockOf(ctx, c[0].NewPermitSemaphore(name))
		},
		func(ctx context.Context, c clients, name string) (held, error) {
			h, err := c[0].NewPermitSemaphore(name).Acquire(ctx, permits, holdfast.Wait(longestWait))
			return orNil(h), err
		},
		permits,
	},
	{
		"semaphore", func(ctx context.Context, c clients, name string, _ int) (held, error) {
			return acquireOf(ctx, c, name, 1)
		},
		func(ctx context.Context, c clients, name string) (held, error) {
			return acquireOf(ctx, c, name, permits)
		},
		permits,
	},
	{
		"latch", func(ctx context.Context, c clients, name string, i int) (held, error) {
			if writes(i) {
				return closeLatch(ctx, c, name)
			}
			if err := c[0].NewLatch(name).Await(ctx, holdfast.Wait(longestWait)); err != nil {
				return nil, err
			}
			return heldWithoutEnd{func() error { return nil }}, nil
		},
		closeLatch, anybody,
	},
}

// longestWait is for how long each caller waits at most.
const longestWait = 5 * time.Second

func writes(i int) bool { return i%3 == 2 }

// exclusive is a kind that one has at a time.
func exclusive(name string, open func(c clients, name string) holdfast.Locker) lockKind {
	return lockKind{
		name, func(ctx context.Context, c clients, name string, _ int) (held, error) {
			return lockOf(ctx, open(c, name))
		},
		func(ctx context.Context, c clients, name string) (held, error) { return lockOf(ctx, open(c, name)) }, 1,
	}
}

func lockOf(ctx context.Context, l holdfast.Locker) (held, error) {
	h, err := l.Lock(ctx, holdfast.Wait(longestWait))
	return orNil(h), err
}

// orNil keeps a hold that is nil from becoming a value that is not.
func orNil(h *holdfast.Hold) held {
	if h == nil {
		return nil
	}
	return h
}

func acquireOf(ctx context.Context, c clients, name string, n int) (held, error) {
	s := c[0].NewUnleasedSemaphore(name)
	if err := s.Acquire(ctx, n, holdfast.Wait(longestWait)); err != nil {
		return nil, err
	}
	return heldWithoutEnd{func() error { return s.Release(n) }}, nil
}

// closeLatch is not cancelled: nobody would know whether it is closed.
func closeLatch(ctx context.Context, c clients, name string) (held, error) {
	l := c[0].NewLatch(name)
	_, err := l.TrySetCount(context.WithoutCancel(ctx), 1)
	if err != nil {
		_ = l.CountDown() // it may be closed all the same
		return nil, err
	}
	return heldWithoutEnd{l.CountDown}, nil // which does nothing if it is open already
}

// setUp gives the semaphores of a name's ending their permits.
func setUp(t testing.TB, c clients, ending string) {
	t.Helper()
	ctx := context.Background()
	if _, err := c[0].NewPermitSemaphore("permits"+ending).TrySetPermits(ctx, permits); err != nil {
		t.Fatal(err)
	}
	if _, err := c[0].NewUnleasedSemaphore("semaphore"+ending).TrySetPermits(ctx, permits); err != nil {
		t.Fatal(err)
	}
}

// sample is what there is at one moment.
type sample struct {
	goroutines  int
	heap        uint64 // bytes, after two collections
	connections int
	channels    int
	granted     int            // channels where a client hears of grants, once one of its waiters has stood in line, until Close
	keys        map[string]int // by what they are
}

// The kinds of keys that may stay: docs/internals/protocol.md says why.
const (
	identities = "identities of clients"      // until Close
	tokens     = "tokens"                     // for ever: a counter that begins anew would let a stale holder in
	numbers    = "permits"                    // until Delete
	zeros      = "marks that a latch is open" // a minute
	ids        = "sets of ids of calls"       // idsLive
	others     = "others"
)

// take looks how things stand.
func take(t testing.TB, server *redistest.Server) sample {
	t.Helper()
	s := sample{keys: map[string]int{}}
	for key := range strings.FieldsSeq(server.Cli(t, "KEYS", "*")) {
		s.keys[kindOfKey(key)]++
	}
	for channel := range strings.FieldsSeq(server.Cli(t, "PUBSUB", "CHANNELS")) {
		if strings.HasPrefix(channel, "holdfast_granted:") {
			s.granted++
		} else {
			s.channels++
		}
	}
	for line := range strings.SplitSeq(server.Cli(t, "INFO", "clients"), "\n") {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_clients:"); ok {
			s.connections, _ = strconv.Atoi(n)
		}
	}
	s.connections-- // the one that asks
	s.goroutines = runtime.NumGoroutine()
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.heap = memory.HeapAlloc
	return s
}

func kindOfKey(key string) string {
	switch {
	case strings.HasPrefix(key, "holdfast_client:"):
		return identities
	case strings.HasPrefix(key, "redisson_lock_token:"):
		return tokens
	case strings.HasPrefix(key, "holdfast_calls:"):
		return ids
	case strings.HasPrefix(key, "holdfast_zero:"):
		return zeros
	case strings.HasPrefix(key, "permits"), strings.HasPrefix(key, "semaphore"):
		return numbers
	}
	return others + " (" + key + ")"
}

func (s sample) String() string {
	var keys []string
	for what, n := range s.keys {
		keys = append(keys, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(keys)
	return fmt.Sprintf("%d goroutines, heap %d KiB, %d connections, %d channels and %d for grants, keys: %s",
		s.goroutines, s.heap>>10, s.connections, s.channels, s.granted, strings.Join(keys, ", "))
}

// left says what there is that may not stay when nobody holds, or waits for, anything.
func (s sample) left() (all []string) {
	for what := range s.keys {
		if strings.HasPrefix(what, others) {
			all = append(all, what)
		}
	}
	if s.channels > 0 {
		all = append(all, fmt.Sprintf("%d channels", s.channels))
	}
	if s.granted > s.keys[identities] {
		all = append(all, fmt.Sprintf("%d channels for grants, of %d clients", s.granted, s.keys[identities]))
	}
	return all
}

// rest waits until nothing is left that may not stay, and returns how things stand then.
func rest(t testing.TB, server *redistest.Server, most time.Duration) sample {
	t.Helper()
	deadline := time.Now().Add(most)
	for {
		s := take(t, server)
		left := s.left()
		if len(left) == 0 {
			return s
		}
		if time.Now().After(deadline) {
			t.Errorf("left after %v: %s", most, strings.Join(left, ", "))
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// showf prints a line at once: a long run is watched.
func showf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// wantStart waits until things stand as before the first of so many clients was there, but for what has to stay. Close
// gives what it says to Redis about itself a quarter of a second, which may not be enough on a machine
// that is busy: a few identities may be left, and end by themselves.
func wantStart(t testing.TB, server *redistest.Server, l limits, goroutines, clients int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := take(t, server)
		if s.goroutines <= goroutines && s.connections == 0 && s.keys[identities] <= clients/4 && len(s.left()) == 0 {
			t.Logf("after Close: %v", s)
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("after Close: %v; %d goroutines at the start", s, goroutines)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for key := range strings.FieldsSeq(server.Cli(t, "KEYS", "holdfast_c*")) { // identities and ids
		ms, err := strconv.ParseInt(server.Cli(t, "PTTL", key), 10, 64)
		ttl := time.Duration(ms) * time.Millisecond
		if err != nil || ms == -1 || kindOfKey(key) == ids && ttl > l.idsLive() {
			t.Errorf("%s expires in %v, %v", key, ttl, err)
		}
	}
}
