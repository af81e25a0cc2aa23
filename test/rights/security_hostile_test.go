package rights

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What somebody may write to Redis who wants to do harm. docs/security.md has the rule that these
// tests hold: who finds a lock held can force it; who finds something that is no lock changes
// nothing of it; and nothing hangs, crashes, or grants what is held.

// strangeNumbers may stand where a count should: Lua, Go and Redis read them differently, or not at all.
var strangeNumbers = map[string]string{
	"exponent": "1e3", "one as exponent": "1e0", "nan": "nan", "minus nan": "-nan", "inf": "inf", "minus inf": "-inf", "hex": "0x10",
	"empty": "", "negative": "-5", "zero": "0", "zeros": "007", "plus": "+1", "space": " 1", "half": "1.5", "word": "abc", "NUL": "1\x00",
	"2^53": "9007199254740992", "2^63": "9223372036854775808", "2^63-1": "9223372036854775807", "billion": "1000000000",
	"long digits": strings.Repeat("9", 1<<20), "long text": strings.Repeat("x", 1<<20+1), "escapes": "\x1b[2J\r\n<script>",
}

const (
	strangersOwner = "99f17b91-c6cc-889e-88f6-8265bee545cf:1" // of a holdfast that is gone
	redissonsOwner = "b983c153-7421-469a-addb-44fb92259a1b:1"
)

// strangeOwners may stand where an owner should: all have a colon, as every owner has.
var strangeOwners = map[string]string{
	"ordinary": strangersOwner, "of Redisson": redissonsOwner, "word": "nobody:1", "escapes": "\x1b]0;own\x07\r\n<img src=x>\u202e:", "no text": "\xff:\xfe\x00",
	"mode": "mode:", "long": strings.Repeat("o", 1<<20) + ":1", "colon": ":",
}

// strangeFields are no owners: they have none.
var strangeFields = []string{"user", "", "modes", "\xff\xfe\x00", strings.Repeat("x", 1<<20)}

// vandal is something hostile at a lock's keys.
type vandal struct {
	what string
	put  func(do func(args ...any), name string)
	held bool // somebody seems to hold it, so it must not be granted
	// foreign says that it is no lock of any kind, so every call has to say so.
	foreign bool
}

// vandals are what could be done to a lock of a kind.
func vandals(k *kit.Kind) (all []vandal) {
	add := func(what string, held bool, put func(do func(args ...any), name string)) {
		all = append(all, vandal{what: what, put: put, held: held})
	}
	foreign := func(what string, put func(do func(args ...any), name string)) {
		all = append(all, vandal{what: what, put: put, held: true, foreign: true})
	}
	plain := !k.Shared() && k.Mode == ""
	for what, text := range strangeNumbers {
		if plain {
			add("count "+what, true, func(do func(...any), name string) { do("HSET", name, strangersOwner, text) })
		} else {
			add("writes "+what, true, func(do func(...any), name string) {
				do("HSET", name, "mode", "write", strangersOwner+":write", text)
			})
			add("reads "+what, false, func(do func(...any), name string) {
				do("HSET", name, "mode", "read", strangersOwner, text)
				do("SET", kit.ReadHold(name, strangersOwner, 1), "1")
			})
			add("reads "+what+", of Redisson", false, func(do func(...any), name string) { do("HSET", name, "mode", "read", redissonsOwner, text) })
			add("mode "+what, true, func(do func(...any), name string) { do("HSET", name, "mode", text, strangersOwner, "1") })
			add("mode "+what+" of one who writes", true, func(do func(...any), name string) {
				do("HSET", name, "mode", text, strangersOwner+":write", "1")
			})
			add("next "+what, false, func(do func(...any), name string) { do("SET", "holdfast_next:"+kit.Tagged(name), text) })
		}
		if k.Remains != nil {
			add("token "+what, false, func(do func(...any), name string) { do("SET", "redisson_lock_token:"+kit.Tagged(name), text) })
			add("token and count "+what, true, func(do func(...any), name string) {
				do("SET", "redisson_lock_token:"+kit.Tagged(name), text)
				if plain {
					do("HSET", name, strangersOwner, text)
				} else {
					do("HSET", name, "mode", "write", strangersOwner+":write", text)
				}
			})
		}
	}
	for what, owner := range strangeOwners {
		if plain {
			add("owner "+what, true, func(do func(...any), name string) { do("HSET", name, owner, "1") })
		} else {
			add("writer "+what, true, func(do func(...any), name string) { do("HSET", name, "mode", "write", owner+":write", "1") })
			add("reader "+what, k.Mode == "write", func(do func(...any), name string) {
				do("HSET", name, "mode", "read", owner, "1")
				do("SET", kit.ReadHold(name, owner, 1), "1")
			})
		}
		if k.Queues {
			add("in line "+what, false, func(do func(...any), name string) { do("RPUSH", "redisson_lock_queue:"+kit.Tagged(name), owner) })
			for _, score := range []string{"inf", "-inf", "1e300", "nearly"} {
				if score == "nearly" {
					score = fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMilli())
				}
				add("in line "+what+" for "+score, false, func(do func(...any), name string) {
					do("RPUSH", "redisson_lock_queue:"+kit.Tagged(name), owner)
					do("ZADD", "redisson_lock_timeout:"+kit.Tagged(name), score, owner)
				})
				add("in our line "+what+" for "+score, false, func(do func(...any), name string) {
					do("RPUSH", "redisson_lock_queue:"+kit.Tagged(name), owner)
					do("ZADD", "redisson_lock_timeout:"+kit.Tagged(name), score, owner)
					do("ZADD", "holdfast_lock_waiting:"+kit.Tagged(name), score, owner, score, "seen", score, "grace")
				})
			}
		}
	}
	for _, ms := range []string{"9000000000000000000", "1000000000000000"} { // more than a duration of Go's has room for
		add("for "+ms, true, func(do func(...any), name string) {
			if plain {
				do("HSET", name, strangersOwner, "1")
			} else {
				do("HSET", name, "mode", "write", strangersOwner+":write", "1")
			}
			do("PEXPIRE", name, ms)
		})
	}
	for _, field := range strangeFields {
		foreign(fmt.Sprintf("a field of another program, %.10q", field), func(do func(...any), name string) { do("HSET", name, field, "alice") })
	}
	foreign("fields of another program", func(do func(...any), name string) { do("HSET", name, "user", "bob", "mail", "b@example.com") })
	add("a writer's mode and nothing else", true, func(do func(...any), name string) { do("HSET", name, "mode", "write") })
	add("a writer's mode and a field of another program", true, func(do func(...any), name string) { do("HSET", name, "mode", "write", "user", "bob") })
	foreign("a thousand fields", func(do func(...any), name string) {
		for i := range 1000 {
			do("HSET", name, fmt.Sprint("field", i), "1")
		}
	})
	all = append(all, wrongTypes(k)...)
	return all
}

// wrongTypes are what could stand at a lock's keys that is of another type.
func wrongTypes(k *kit.Kind) (all []vandal) {
	values := map[string][]any{
		"string": {"SET", "", "x"}, "list": {"RPUSH", "", "x"}, "set": {"SADD", "", "x"}, "sorted set": {"ZADD", "", "1", "x"},
		"stream": {"XADD", "", "*", "x", "y"}, "hash": {"HSET", "", "x", "y", "z", "z"},
	}
	for _, key := range k.Rights.Keys {
		if key == "{NAME}:*" {
			key = "{NAME}:" + strangersOwner + ":rwlock_timeout:1"
		}
		for value, command := range values {
			all = append(all, vandal{
				what: "a " + value + " at " + key, held: key == "NAME", foreign: key == "NAME",
				put: func(do func(...any), name string) {
					command := slices.Clone(command)
					command[1] = strings.ReplaceAll(strings.ReplaceAll(key, "{NAME}", kit.Tagged(name)), "NAME", name)
					do(command...)
				},
			})
		}
	}
	return all
}

// hostileServer is a server that somebody else writes to.
type hostileServer struct {
	t   *testing.T
	rdb *redis.Client
}

func newHostileServer(t *testing.T) *hostileServer {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), ReadTimeout: longestCall, WriteTimeout: longestCall})
	t.Cleanup(func() { _ = rdb.Close() })
	return &hostileServer{t, rdb}
}

// client is one that a vandal's victim has.
func (s *hostileServer) client(t *testing.T, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	c, err := testclient.New(goredisdriver.New(s.rdb), append([]holdfast.ClientOption{holdfast.WithoutIdentity(), holdfast.WithTimeout(longestCall)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // what it could not give back is what the test is about
	return c
}

func (s *hostileServer) do(t *testing.T) func(args ...any) {
	t.Helper()
	return func(args ...any) {
		t.Helper()
		if err := s.rdb.Do(background, args...).Err(); err != nil {
			t.Fatalf("%.100q: %v", args, err)
		}
	}
}

// contents are all keys of a name, without their times to live.
func (s *hostileServer) contents(t *testing.T, name string) map[string]string {
	t.Helper()
	keys, err := s.rdb.Keys(background, "*"+name+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, key := range keys {
		if all[key], err = s.rdb.Dump(background, key).Result(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	return all
}

// wipe keeps the server small.
func (s *hostileServer) wipe(t *testing.T, name string) {
	t.Helper()
	for key := range s.contents(t, name) {
		s.do(t)("UNLINK", key)
	}
}

// longestCall is more than any call takes here, on a very busy machine. What never ends takes longer, and has the
// server tell everybody that it is busy.
const longestCall = 20 * time.Second

// bounded makes a call, and checks that it ends soon, and with an error that can be shown.
func bounded(t *testing.T, what string, call func() error) error {
	t.Helper()
	began := time.Now()
	err := call()
	if took := time.Since(began); took > longestCall {
		t.Errorf("%s took %v", what, took)
	}
	wantHarmless(t, what, err)
	return err
}

// wantHarmless checks that an error's text can neither move a terminal's cursor nor fill a log.
func wantHarmless(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	if len(text) > 4<<10 {
		t.Errorf("%s: an error of %d bytes: %.200q", what, len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s: the error has %q in it: %.400q", what, text[i:min(len(text), i+4)], text)
	}
}

// TestHostileLocks has every call of every kind of lock meet what a vandal has left there.
func TestHostileLocks(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		c := s.client(t)
		for _, v := range vandals(k) {
			t.Run(v.what, func(t *testing.T) {
				name := kit.Fresh()
				v.put(s.do(t), name)
				s.meet(t, k, c, v, name)
				s.wipe(t, name)
			})
		}
	})
}

// meet makes all calls.
func (s *hostileServer) meet(t *testing.T, k *kit.Kind, c *holdfast.Client, v vandal, name string) {
	t.Helper()
	before := s.contents(t, name)
	var h *holdfast.Hold
	err := bounded(t, "TryLock", func() (err error) { h, err = k.Lock(c, name).TryLock(background); return err })
	var failed *holdfast.BackendError
	switch {
	case v.foreign:
		kit.WantError(t, err, holdfast.ErrOtherKind)
		s.refused(t, k, c, v, name, before)
	case err == nil:
		if v.held {
			t.Error("it was granted")
		}
		if k.Remains != nil && h.Token() <= 0 {
			t.Errorf("the token is %d", h.Token())
		}
		if err := bounded(t, "Unlock", h.Unlock); err != nil {
			t.Errorf("Unlock: %v", err)
		}
	case errors.Is(err, holdfast.ErrLocked):
		s.force(t, k, c, name)
	case errors.As(err, &failed):
		kit.WantError(t, err, holdfast.ErrOtherKind)
		s.refused(t, k, c, v, name, before)
	default:
		t.Errorf("TryLock: %v", err)
	}
}

// force takes a lock from whoever seems to hold it, and has it then.
func (s *hostileServer) force(t *testing.T, k *kit.Kind, c *holdfast.Client, name string) {
	t.Helper()
	var failed *holdfast.BackendError
	err := bounded(t, "Lock", func() error {
		_, err := k.Lock(c, name).Lock(background, briefly)
		return err
	})
	late := errors.As(err, &failed) && (failed.MayHaveRun || errors.Is(err, call.ErrNoAnswer)) // the machine is busy
	if !errors.Is(err, holdfast.ErrLocked) && !late {
		t.Errorf("Lock: %v", err)
	}
	var found holdfast.State
	if err := bounded(t, "Inspect", func() (err error) { found, err = k.Lock(c, name).Inspect(background); return err }); err != nil {
		t.Errorf("Inspect: %v", err)
	}
	stranger := s.client(t)
	other := kit.Must(t)(stranger.NewMutex(name + "-other").TryLock(background))
	defer kit.Unlock(t, other)
	if err := bounded(t, "Adopt", func() error { _, err := k.Lock(c, name).Adopt(background, other.Owner()); return err }); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("Adopt: %v", err)
	}
	if k.Queues && len(found.Holders) == 0 {
		// Nobody holds it; somebody is in line before it, for as long as that stands there.
		s.do(t)("DEL", "redisson_lock_queue:"+kit.Tagged(name), "redisson_lock_timeout:"+kit.Tagged(name))
		kit.Unlock(t, kit.Must(t)(k.Lock(c, name).Lock(background, holdfast.Wait(longestCall))))
		return
	}
	sides := []kit.AnyLock{k.Lock(c, name)}
	if k.Mode != "" {
		m := c.NewRWMutex(name) // both sides, whoever is in the way
		sides = []kit.AnyLock{m, m.RLocker()}
	}
	forced := false
	for _, side := range sides {
		if err := bounded(t, "ForceUnlock", func() error {
			done, err := side.ForceUnlock(background)
			forced = forced || done
			return err
		}); err != nil {
			t.Fatalf("ForceUnlock: %v", err)
		}
	}
	if !forced {
		t.Fatal("ForceUnlock found nobody")
	}
	var h *holdfast.Hold
	// Not TryLock: the Lock above may still be about to leave a fair lock's line.
	lock := func() (err error) {
		h, err = k.Lock(c, name).Lock(background, holdfast.Wait(longestCall))
		return err
	}
	err = bounded(t, "Lock", lock)
	if errors.Is(err, holdfast.ErrOtherKind) && k.Remains != nil { // its token is none
		s.do(t)("DEL", "redisson_lock_token:"+kit.Tagged(name))
		err = lock()
	}
	if err != nil {
		t.Fatalf("Lock, now that it is free: %v", err)
	}
	kit.Unlock(t, h)
}

// refused makes the other calls of what is no lock; before is what stood there before the first one.
func (s *hostileServer) refused(t *testing.T, k *kit.Kind, c *holdfast.Client, v vandal, name string, before map[string]string) {
	t.Helper()
	for what, call := range map[string]func() error{
		"Lock": func() error {
			_, err := k.Lock(c, name).Lock(background, holdfast.Wait(longestCall))
			return err
		},
		"Inspect":     func() error { _, err := k.Lock(c, name).Inspect(background); return err },
		"ForceUnlock": func() error { _, err := k.Lock(c, name).ForceUnlock(background); return err },
	} {
		err := bounded(t, what, call)
		if v.foreign {
			kit.WantError(t, err, holdfast.ErrOtherKind)
		}
		if err == nil && what == "Lock" {
			t.Error("Lock was granted what TryLock was not")
		}
	}
	if after := s.contents(t, name); !maps.Equal(before, after) {
		t.Errorf("what stands there has changed: %.300q, was %.300q", after, before)
	}
}

// TestHostileToHolder overwrites what a holder has in Redis, and has it go on until a renewal tells it.
func TestHostileToHolder(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for what, text := range strangeNumbers {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				name := kit.Fresh()
				c := s.client(t, holdfast.WithLease(4*time.Second), holdfast.WithTimeout(4*time.Second))
				h := kit.Must(t)(k.Lock(c, name).Lock(background))
				field := h.Owner().String()
				if k.Mode == "write" {
					field += ":write"
				}
				s.do(t)("HSET", name, field, text)
				if k.Nests {
					_ = bounded(t, "nested Lock", func() error { _, err := k.Lock(c, name).TryLock(h.Context()); return err })
				}
				_ = bounded(t, "Extend", func() error { return h.Extend(background, 4*time.Second) })
				_ = bounded(t, "Inspect", func() error { _, err := k.Lock(c, name).Inspect(background); return err })
				renewed := 1500 * time.Millisecond // once, at the least
				if k.Nests {
					renewed = longestCall
				}
				select {
				case <-h.Context().Done():
				case <-time.After(renewed):
					if k.Nests { // of the others Redis counts nothing
						t.Error("the holder was not told")
					}
				}
				if err := bounded(t, "Unlock", h.Unlock); k.Nests && !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
				d := s.client(t)
				whole := k.Lock(d, name)
				if k.Mode != "" {
					whole = d.NewRWMutex(name)
				}
				if err := bounded(t, "ForceUnlock", func() error { _, err := whole.ForceUnlock(background); return err }); err != nil {
					t.Errorf("ForceUnlock: %v", err)
				}
				kit.Unlock(t, kit.Must(t)(k.Lock(d, name).Lock(background, holdfast.Wait(longestCall))))
			})
		}
	})
}

// TestHostileMessages has a waiter hear nonsense, and then that the lock is free.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if k.Polls {
			return
		}
		name := kit.Fresh()
		a, b := s.client(t), s.client(t)
		first := kit.Must(t)(k.Against(a, name).Lock(background))
		got := make(chan error, 1)
		go func() {
			h, err := k.Lock(b, name).Lock(background)
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		var channels []string
		kit.WaitFor(t, "the waiter", func() bool {
			channels = s.rdb.PubSubChannels(background, "*"+name+"*").Val()
			return len(channels) > 0
		})
		for _, channel := range channels {
			for _, text := range strangeNumbers {
				s.do(t)("PUBLISH", channel, text)
			}
		}
		select {
		case err := <-got:
			t.Errorf("a message let it in: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if state, err := k.Against(a, name).Inspect(background); err != nil || len(state.Holders) != 1 {
			t.Errorf("%+v, %v", state, err)
		}
		released := time.Now()
		kit.Unlock(t, first)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if took := time.Since(released); took > kit.ByMessage {
			t.Errorf("it heard of the release after %v", took)
		}
	})
}

// TestHostileIdentities has clients be somebody whom a vandal has invented.
func TestHostileIdentities(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	strange := maps.Clone(strangeNumbers)
	strange["5 MB"] = strings.Repeat("\x1b[31m", 1<<20)
	for what, text := range strange {
		t.Run(what, func(t *testing.T) {
			name := kit.Fresh()
			s.do(t)("HSET", name, strangersOwner, "1")
			key := "holdfast_client:" + strangersOwner[:18]
			s.do(t)("DEL", key)
			for _, field := range []string{"program", "version", "host", "pid", "since", strangersOwner + " " + name} {
				s.do(t)("HSET", key, field, text)
			}
			c, read := s.counting(t)
			mu := c.NewMutex(name)
			_, err := mu.TryLock(background)
			kit.WantError(t, err, holdfast.ErrLocked)
			wantHarmless(t, "TryLock", err)
			state, err := mu.Inspect(background)
			if err != nil || len(state.Holders) != 1 {
				t.Fatalf("%+v, %v", state, err)
			}
			who, err := c.Who(background, state.Holders[0].Owner)
			if err != nil {
				t.Error(err)
			}
			for _, text := range []string{who.Program, who.Version, who.Host, who.String(), state.Holders[0].Who.String()} {
				if len(text) > 512 {
					t.Errorf("it says %d bytes of itself", len(text))
				}
				wantHarmless(t, "identity", errors.New(text))
			}
			if n := read(); n > 64<<10 {
				t.Errorf("%d bytes came from Redis", n)
			}
			if done, err := mu.ForceUnlock(background); !done || err != nil {
				t.Errorf("ForceUnlock: %v, %v", done, err)
			}
		})
	}
	for _, command := range [][]any{{"SET", "", "x"}, {"RPUSH", "", "x"}} {
		name := kit.Fresh()
		s.do(t)("HSET", name, strangersOwner, "1")
		key := "holdfast_client:" + strangersOwner[:18]
		s.do(t)("DEL", key)
		command[1] = key
		s.do(t)(command...)
		c, _ := s.counting(t)
		_, err := c.NewMutex(name).TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		wantHarmless(t, "TryLock", err)
		if _, err := c.NewMutex(name).Inspect(background); err != nil {
			t.Error(err)
		}
		if done, err := c.NewMutex(name).ForceUnlock(background); !done || err != nil {
			t.Errorf("ForceUnlock: %v, %v", done, err)
		}
	}
}

// counting is a client that asks who others are, and how many bytes have come to it.
func (s *hostileServer) counting(t *testing.T) (c *holdfast.Client, read func() int64) {
	t.Helper()
	var n atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: s.rdb.Options().Addr, ReadTimeout: longestCall, WriteTimeout: longestCall,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countingConn{conn, &n}, err
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := testclient.New(goredisdriver.New(rdb), holdfast.WithTimeout(longestCall))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, n.Load
}

type countingConn struct {
	net.Conn

	read *atomic.Int64
}

func (c countingConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.read.Add(int64(n))
	return n, err
}

// counted is a semaphore or a latch, and what can be asked of it.
type counted struct {
	name  string
	keys  []string // with NAME
	calls func(c *holdfast.Client, name string) map[string]func() error
	// anew deletes it, and uses it as new.
	anew func(c *holdfast.Client, name string) error
}

var briefly = holdfast.Wait(50 * time.Millisecond)

var countedKinds = []counted{
	{
		name: "permits", keys: []string{"NAME", "{NAME}:timeout", "holdfast_next:{NAME}", "holdfast_calls:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			s := c.NewPermitSemaphore(name)
			took := func(h *holdfast.Hold, err error) error {
				if err == nil {
					err = h.Unlock()
				}
				return err
			}
			return map[string]func() error{
				"TryLock":        func() error { return took(s.TryLock(background)) },
				"Acquire":        func() error { return took(s.Acquire(background, 2, briefly)) },
				"Inspect":        func() error { _, err := s.Inspect(background); return err },
				"TrySetPermits":  func() error { _, err := s.TrySetPermits(background, 3); return err },
				"AddPermits":     func() error { return s.AddPermits(background, 1) },
				"SetPermits":     func() error { return s.SetPermits(background, 4) },
				"ReleasePermits": func() error { return s.ReleasePermits(background, kit.PermitID(strings.Repeat("ab", 16))) },
				"ExtendPermit":   func() error { return s.ExtendPermit(background, kit.PermitID(strings.Repeat("ab", 16)), time.Minute) },
				"ForceUnlock":    func() error { _, err := s.ForceUnlock(background); return err },
				"Expire":         func() error { _, err := s.Expire(background, time.Hour); return err },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			s := c.NewPermitSemaphore(name, holdfast.Permits(2))
			if _, err := s.Delete(background); err != nil {
				return err
			}
			h, err := s.Lock(background, holdfast.Wait(time.Minute)) // who has just given up may still be on its way out
			if err == nil {
				err = h.Unlock()
			}
			return err
		},
	},
	{
		name: "semaphore", keys: []string{"NAME", "holdfast_next:{NAME}", "holdfast_calls:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			s := c.NewUnleasedSemaphore(name)
			return map[string]func() error{
				"TryAcquire":      func() error { return s.TryAcquire(background, 1) },
				"Acquire":         func() error { return s.Acquire(background, 2, briefly) },
				"Release":         func() error { return s.Release(1) },
				"ReleaseIfExists": func() error { _, err := s.ReleaseIfExists(1); return err },
				"TrySetPermits":   func() error { _, err := s.TrySetPermits(background, 3); return err },
				"AddPermits":      func() error { return s.AddPermits(background, 1) },
				"Drain":           func() error { _, err := s.Drain(background); return err },
				"Inspect":         func() error { _, err := s.Inspect(background); return err },
				"Expire":          func() error { _, err := s.Expire(background, time.Hour); return err },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			s := c.NewUnleasedSemaphore(name, holdfast.Permits(2))
			if _, err := s.Delete(background); err != nil {
				return err
			}
			return s.Acquire(background, 1, holdfast.Wait(time.Minute))
		},
	},
	{
		name: "latch", keys: []string{"NAME", "holdfast_calls:{NAME}", "holdfast_zero:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			l := c.NewLatch(name)
			return map[string]func() error{
				"TrySetCount": func() error { _, err := l.TrySetCount(background, 3); return err },
				"CountDown":   l.CountDown,
				"Inspect":     func() error { _, err := l.Inspect(background); return err },
				"Await":       func() error { return l.Await(background, briefly) },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			l := c.NewLatch(name)
			if _, err := l.Delete(background); err != nil {
				return err
			}
			if done, err := l.TrySetCount(background, 1); err != nil || !done {
				return errors.Join(err, errors.New("it was not set"))
			}
			return l.CountDown()
		},
	},
}

// vandals are what could be done to it.
func (k counted) vandals() (all []vandal) {
	for what, text := range strangeNumbers {
		for _, key := range k.keys {
			all = append(all, vandal{what: key + " " + what, put: func(do func(...any), name string) {
				do("SET", name, "1")
				key := strings.ReplaceAll(key, "NAME", name)
				do("DEL", key)
				do("SET", key, text)
			}})
		}
		if k.name != "latch" {
			all = append(all, vandal{what: "reserved " + what, put: func(do func(...any), name string) {
				do("SET", name, "1")
				do("SET", "holdfast_next:{"+name+"}", text+" "+text+" aaaaaaaaaaaaaaaa")
			}})
		}
	}
	for _, text := range []string{"1 0 short", "99999999999999999999999 0 aaaaaaaaaaaaaaaa", "1 99999999999999999999999 aaaaaaaaaaaaaaaa"} {
		all = append(all, vandal{what: "reserved " + text, put: func(do func(...any), name string) {
			do("SET", name, "1")
			do("SET", "holdfast_next:{"+name+"}", text)
		}})
	}
	if k.name == "permits" {
		for _, score := range []string{"inf", "-inf", "1e300", "0", "-5"} {
			for _, id := range []string{"", "short", strings.Repeat("\xff", 16), strings.Repeat("i", 1<<20)} {
				all = append(all, vandal{what: fmt.Sprintf("permit %.20q until %s", id, score), put: func(do func(...any), name string) {
					do("SET", name, "1")
					do("ZADD", "{"+name+"}:timeout", score, id)
				}})
			}
		}
	}
	for _, key := range k.keys {
		for value, command := range map[string][]any{
			"list": {"RPUSH", "", "x"}, "set": {"SADD", "", "x"}, "sorted set": {"ZADD", "", "1", "x"}, "hash": {"HSET", "", "x", "y"},
		} {
			all = append(all, vandal{what: "a " + value + " at " + key, put: func(do func(...any), name string) {
				command := slices.Clone(command)
				command[1] = strings.ReplaceAll(key, "NAME", name)
				if key != "NAME" {
					do("SET", name, "1")
				}
				do(command...)
			}})
		}
	}
	return all
}

// TestHostileCounts has every call of semaphores and latches meet what a vandal has left there.
func TestHostileCounts(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	for _, k := range countedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, v := range k.vandals() {
				t.Run(v.what, func(t *testing.T) {
					c := s.client(t)
					var name string
					for what := range k.calls(c, "x") {
						if name != "" {
							s.wipe(t, name)
						}
						name = kit.Fresh() // each call meets it as it was left
						v.put(s.do(t), name)
						before := s.contents(t, name)
						err := bounded(t, what, k.calls(c, name)[what])
						var failed *holdfast.BackendError
						if after := s.contents(t, name); errors.As(err, &failed) && !failed.MayHaveRun && !maps.Equal(before, after) {
							t.Errorf("%s: %v: and yet it has changed what stands there: %.300q, was %.300q", what, err, after, before)
						}
					}
					err := bounded(t, "anew", func() error { return k.anew(c, name) })
					if errors.Is(err, holdfast.ErrOtherKind) { // somebody has to look at that, and delete it
						for _, key := range k.keys {
							s.do(t)("DEL", strings.ReplaceAll(key, "NAME", name))
						}
						err = k.anew(c, name)
					}
					s.wipe(t, name)
					if err != nil {
						t.Errorf("anew: %v", err)
					}
				})
			}
		})
	}
}

// Who sets a token far ahead, and back again, has the resource refuse writes; nobody gets a token that was had before.
func TestTokenSetAhead(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	name, c := kit.Fresh(), s.client(t)
	token := func() int64 {
		h := kit.Must(t)(c.NewMutex(name, holdfast.Fenced()).TryLock(background))
		defer kit.Unlock(t, h)
		return h.Token()
	}
	before := token()
	s.do(t)("SET", "redisson_lock_token:{"+name+"}", "9007199254000000")
	ahead := token()
	s.do(t)("SET", "redisson_lock_token:{"+name+"}", "1")
	if after := token(); ahead <= before || after >= ahead || after <= before {
		t.Errorf("%d, set ahead %d, set back %d", before, ahead, after)
	}
}

// Names may hold any bytes, and come from users: no error repeats them as they are.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	c := s.client(t)
	for _, text := range []string{"\x1b]0;own\x07\x1b[2J", "a\r\nb", "<script>alert(1)</script>\u202e", "\x00\xff", strings.Repeat("\n", 1000)} {
		for _, k := range kit.Kinds {
			name := text + kit.Fresh()
			first := kit.Must(t)(k.Against(c, name).TryLock(background))
			_, err := k.Lock(s.client(t), name).TryLock(background)
			kit.WantError(t, err, holdfast.ErrLocked)
			wantHarmless(t, k.Name, err)
			kit.Unlock(t, first)
			wantHarmless(t, k.Name, first.Unlock())
			for _, command := range [][]any{{"SET", name, "x"}, {"HSET", name, "x", "y", "z", "z"}} {
				s.do(t)("DEL", name)
				s.do(t)(command...)
				_, err = k.Lock(c, name).TryLock(background)
				kit.WantError(t, err, holdfast.ErrOtherKind)
				wantHarmless(t, k.Name, err)
				_, err = k.Lock(c, name).ForceUnlock(background)
				wantHarmless(t, k.Name, err)
			}
		}
		_, err := c.NewPermitSemaphore(text + kit.Fresh()).TryLock(background)
		wantHarmless(t, "permits", err)
		_, err = c.NewMutex("}" + text).TryLock(background)
		kit.WantError(t, err, holdfast.ErrInvalid)
		wantHarmless(t, "a name that cannot be", err)
	}
}
