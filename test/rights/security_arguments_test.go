package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A user without EVAL can run the library's scripts with any keys and arguments. These tests hold that none of them keeps the
// server busy.

// endless are arguments that a loop might count to, and one at which a pattern with several optional parts tries every division.
var endless = []string{"1000000000000000", "-1000000000000000", "inf", strings.Repeat("1", 4000) + "\n"}

// tampering is a driver that sends each call of a client again and again before the call itself: each time with another argument
// replaced by one of endless, with some keys or arguments left out, or with each key many times. What that writes is taken back.
type tampering struct {
	driver.Driver
	*tamperer
}

// tamperer tampers with the calls of all clients of one server.
type tamperer struct {
	t   *testing.T
	rdb *redis.Client

	mu   sync.Mutex
	sent map[string]int // how often a script was tampered with
}

// sameScript is how many calls of a script are tampered with: they meet several states.
const sameScript = 6

func (d tampering) Eval(ctx context.Context, call driver.Call) (any, error) {
	d.mu.Lock() // what others write meanwhile would be taken back, too
	defer d.mu.Unlock()
	d.tamper(call)
	return d.Driver.Eval(context.WithoutCancel(ctx), call) // the attempt's time may be over
}

// tamper sends the call's variants. mu is held.
func (d *tamperer) tamper(call driver.Call) {
	if d.sent[call.Script.SHA()]++; d.sent[call.Script.SHA()] > sameScript || d.t.Failed() {
		return
	}
	before := d.snapshot()
	for what, variant := range variants(call) {
		command := []any{"EVAL", call.Script.Source(), len(variant.Keys)}
		for _, word := range slices.Concat(variant.Keys, variant.Args) {
			command = append(command, word)
		}
		err := d.rdb.Do(background, command...).Err()
		var answered redis.Error
		if err != nil && !errors.As(err, &answered) || redis.HasErrorPrefix(err, "BUSY") {
			d.t.Errorf("%s with %s keeps the server busy: %v", call.Script.Name(), what, err)
			return
		}
		d.restore(before)
	}
}

// variants are the calls that a call is replaced by.
func variants(call driver.Call) map[string]driver.Call {
	all := map[string]driver.Call{"many keys": {Keys: slices.Repeat(call.Keys, 1000), Args: call.Args}}
	for i := range call.Keys {
		all[fmt.Sprint(i, " keys")] = driver.Call{Keys: call.Keys[:i], Args: call.Args}
	}
	for i := range call.Args {
		all[fmt.Sprint(i, " arguments")] = driver.Call{Keys: call.Keys, Args: call.Args[:i]}
		for _, odd := range endless {
			args := slices.Clone(call.Args)
			args[i] = odd
			all[fmt.Sprintf("ARGV[%d] %.20q", i+1, odd)] = driver.Call{Keys: call.Keys, Args: args}
		}
	}
	return all
}

// entry is a key as RESTORE takes it.
type entry struct {
	dump string
	ttl  time.Duration
}

func (d *tamperer) snapshot() map[string]entry {
	d.t.Helper()
	all := map[string]entry{}
	for _, key := range d.rdb.Keys(background, "*").Val() {
		ttl := d.rdb.PTTL(background, key).Val()
		if ttl == 0 {
			ttl = time.Millisecond // less than one is left; RESTORE takes 0 for a key that never expires
		}
		if dump := d.rdb.Dump(background, key).Val(); dump != "" { // else it has just expired
			all[key] = entry{dump, max(0, ttl)}
		}
	}
	return all
}

func (d *tamperer) restore(all map[string]entry) {
	d.t.Helper()
	pipe := d.rdb.TxPipeline()
	pipe.FlushAll(background)
	for key, e := range all {
		pipe.Restore(background, key, e.ttl, e.dump)
	}
	if _, err := pipe.Exec(background); err != nil {
		d.t.Errorf("the keys cannot be restored: %v", err)
	}
}

// TestHostileArguments tampers with the calls of each kind. Each has a server of its own, which the tampering empties.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	for _, k := range kit.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			a, b := tampered(t)
			l, other := k.Lock(a, "x"), k.Against(b, "x")
			h := kit.Must(t)(l.Lock(background))
			if k.Nests() {
				kit.Unlock(t, kit.Must(t)(l.Lock(h.Context())))
			}
			waiter := turn(other)
			wantNone(t, errorOf(other.Lock(background, briefly)))
			_, err := l.Inspect(background)
			kit.OK(t, err, h.Extend(background, time.Hour))
			owner, err := h.Detach()
			kit.OK(t, err)
			h = kit.Must(t)(l.Adopt(background, owner))
			kit.OK(t, h.Unlock(), <-waiter)
			if !k.Shared {
				kit.OK(t, given(l.Lock(background, holdfast.MinHold(time.Millisecond))))
			}
			h = kit.Must(t)(l.Lock(background))
			kit.OK(t, kit.ErrOf(l.ForceUnlock(background)))
			_ = h.Unlock() // it is lost
		})
	}
	t.Run("permits", func(t *testing.T) {
		a, b := tampered(t)
		s, other := a.NewPermitSemaphore("x"), b.NewPermitSemaphore("x")
		kit.OK(t, kit.ErrOf(s.TrySetPermits(background, 2)), s.AddPermits(background, 1))
		h := kit.Must(t)(s.Acquire(background, 3))
		waiter := turn(other)
		wantNone(t, errorOf(other.Acquire(background, 4, briefly)))
		kit.OK(t, h.Extend(background, time.Hour), kit.ErrOf(s.Inspect(background)))
		kit.OK(t, s.ExtendPermit(background, h.PermitIDs()[0], 2*time.Hour), h.Unlock(), <-waiter)
		kit.OK(t, kit.ErrOf(s.Expire(background, time.Hour)), kit.ErrOf(s.Delete(background)))
	})
	t.Run("unleased semaphore", func(t *testing.T) {
		a, b := tampered(t)
		s, other := a.NewUnleasedSemaphore("x"), b.NewUnleasedSemaphore("x")
		kit.OK(t, kit.ErrOf(s.TrySetPermits(background, 3)), s.AddPermits(background, 1), s.TryAcquire(background, 3))
		wantNone(t, other.Acquire(background, 4, briefly))
		kit.OK(t, s.Release(3), kit.ErrOf(s.Drain(background)), kit.ErrOf(s.Inspect(background)))
	})
	t.Run("latch", func(t *testing.T) {
		a, b := tampered(t)
		l := a.NewLatch("x")
		kit.OK(t, kit.ErrOf(l.TrySetCount(background, 2)), l.CountDown())
		wantNone(t, b.NewLatch("x").Await(background, briefly))
		kit.OK(t, l.CountDown(), l.Await(background))
	})
}

// wantNone checks that a call has not got what another has. Which error it has depends on how busy the machine is: there may have been
// no reply in time, since each call is tampered with before.
func wantNone(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("it has got what another has")
	}
}

// tampered are two clients of a server of their own whose calls are tampered with.
func tampered(t *testing.T) (a, b *holdfast.Client) {
	t.Helper()
	s := newHostileServer(t)
	by := &tamperer{t: t, rdb: s.rdb, sent: map[string]int{}}
	client := func() *holdfast.Client {
		c, err := testclient.New(tampering{goredisdriver.New(s.rdb), by}, holdfast.WithTimeout(longestCall), holdfast.WithLease(time.Hour))
		kit.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return client(), client()
}

// TestHostileCountsAreBounded has each script of the read-write lock meet two thousand readers, of whom each is said to read as often
// as is believed, and has one renewal name such a lock a thousand times: without a bound each takes minutes.
func TestHostileCountsAreBounded(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	c := s.client(t)
	fill := func(name, mode string) {
		reads := []any{"HSET", name, "mode", mode}
		for i := range 2000 {
			reads = append(reads, fmt.Sprintf("99f17b91-c6cc-889e-88f6-%012d:1", i), "99999")
		}
		s.do(t)(reads...)
	}
	for what, call := range map[string]func(m *holdfast.RWMutex) error{
		"write":   func(m *holdfast.RWMutex) error { return errorOf(m.TryLock(background)) },
		"read":    func(m *holdfast.RWMutex) error { return given(m.TryRLock(background)) },
		"inspect": func(m *holdfast.RWMutex) error { return errorOf(m.Inspect(background)) },
		"force":   func(m *holdfast.RWMutex) error { return errorOf(m.RLocker().ForceUnlock(background)) },
	} {
		t.Run(what, func(t *testing.T) {
			name := kit.Fresh()
			fill(name, "read")
			if err := bounded(t, what, func() error { return call(c.NewRWMutex(name)) }); err != nil && !errors.Is(err, holdfast.ErrLocked) {
				t.Error(err)
			}
		})
	}
	t.Run("renew", func(t *testing.T) {
		name := kit.Fresh()
		fill(name, "read")
		command := []any{"EVAL", protocol.RWScripts.Renew.Source(), 1000}
		args := []any{"0", "", "PUBLISH"}
		for range 1000 {
			command = append(command, name)
			args = append(args, "99f17b91-c6cc-889e-88f6-000000000000:1", "60000", "0")
		}
		kit.OK(t, bounded(t, "renew", func() error { return s.rdb.Do(background, append(command, args...)...).Err() }))
	})
}

// TestHugeTextsAreBounded has scripts meet texts of megabytes: each command of a loop would copy them, and take hours.
func TestHugeTextsAreBounded(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 4<<20)
	many := func(n int, words func(i int) []any) (all []any) {
		for i := range n {
			all = append(all, words(i)...)
		}
		return all
	}
	numbered := func(i int) []any { return []any{fmt.Sprint("f", i)} }
	call := func(which string, keys []any, args ...any) []any {
		return slices.Concat([]any{"EVAL", protocol.Every()[which].Source(), len(keys)}, keys, []any{"0", "", "PUBLISH"}, args)
	}
	calls := protocol.CallsKey("x")
	for what, c := range map[string]struct {
		before [][]any
		call   []any
	}{
		"a key, of which a client says much": {
			nil, call("client write", []any{huge}, append([]any{"0", "60000", "", "", "", "0", "0", "0"}, many(20_000, numbered)...)...),
		},
		"a key, of which many do not hold the lock": {
			[][]any{{"HSET", huge, "a:1", "1"}}, call("mutex force", []any{huge}, many(50_000, numbered)...),
		},
		"the second key": {
			nil, call("permits leave", []any{"x", huge}, "", "c:1", "1", "0", "0", "", strings.Repeat("0123456789abcdef", 200_000)),
		},
		"the owner of many read holds": {
			[][]any{{"HSET", "x", "mode", "read", huge, "99999"}}, call("rw renew", []any{"x"}, huge, "60000", "0"),
		},
		"a call that has drained, among others of its time": {
			[][]any{{"ZADD", calls, 5, huge}, append([]any{"ZADD", calls}, many(50_000, func(i int) []any { return []any{5, i} })...)},
			call("semaphore drain", []any{"x", calls}, huge, "60000", "0"),
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newHostileServer(t)
			for _, command := range c.before {
				s.do(t)(command...)
			}
			began := time.Now()
			err := s.rdb.Do(background, c.call...).Err()
			var answered redis.Error
			if err != nil && !errors.As(err, &answered) {
				t.Errorf("the server is busy: %v", err)
			}
			kit.Took(t, time.Since(began), 0, longestCall, "it took %v")
		})
	}
	t.Run("more permits than one hold can have", func(t *testing.T) {
		s := newHostileServer(t)
		held, asks, line := protocol.PermitsKey("x"), protocol.RequestsKey("x"), protocol.WaitlistKey("x")
		s.do(t)("SET", "x", "1000000000")
		s.do(t)("ZADD", line, 1, "c:1")
		s.do(t)("HSET", asks, "c:1", "N 3000 9999999999999 1 "+strings.Repeat("0123456789abcdef", protocol.MaxPermits+1))
		s.do(t)(call("permits add", []any{"x", held, calls}, "id", "60000", "1")...)
		if n, m := s.rdb.ZCard(background, held).Val(), s.rdb.ZCard(background, line).Val(); n+m > 0 {
			t.Errorf("%d were granted, and %d wait", n, m)
		}
		for _, ids := range []string{strings.Repeat("0123456789abcdef", protocol.MaxPermits+1), "no id"} {
			if err := s.rdb.Do(background, call("permits acquire", []any{"x", held}, "60000", "c:1", "0", "1", "", "1", ids)...).Err(); err == nil {
				t.Error("somebody acquires them")
			}
		}
	})
	t.Run("the ids of permits", func(t *testing.T) {
		s := newHostileServer(t)
		sem, held := s.client(t).NewPermitSemaphore("x"), protocol.PermitsKey("x")
		s.do(t)("SET", "x", "1")
		s.do(t)("ZADD", held, 9e14, "short", 9.1e14, strings.Repeat("x", 9<<20))
		state, err := sem.Inspect(background)
		if kit.OK(t, err); len(state.Holders) != 1 {
			t.Errorf("%d holders are named", len(state.Holders))
		}
		kit.OK(t, kit.ErrOf(sem.ForceUnlock(background)))
		kit.WantError(t, kit.ErrOf(sem.Inspect(background)), holdfast.ErrOtherKind)
	})
	t.Run("publishing by another command", func(t *testing.T) {
		s := newHostileServer(t)
		c := []any{"EVAL", protocol.MutexScripts.Force.Source(), 1, "x", "0", "y", "SET", "0", "a:1"}
		s.do(t)("HSET", "x", "a:1", "1")
		if err := s.rdb.Do(background, c...).Err(); err == nil || s.rdb.Exists(background, "y").Val() == 1 {
			t.Errorf("a release executes a command of the caller's choice: %v", err)
		}
	})
}
