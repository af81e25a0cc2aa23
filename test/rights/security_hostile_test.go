package rights

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What somebody may write to Redis who wants to do harm. docs/security.md has the rule that these
// tests hold: who finds a lock held can force it; who finds something that is no lock changes
// nothing of it; and nothing hangs, crashes, or grants what is held.

// strangeNumbers may stand where a count should: Lua, Go and Redis read them differently, or not at all.
var strangeNumbers = map[string]string{
	"exponent": "1e3", "one as exponent": "1e0", "nan": "nan", "minus nan": "-nan", "inf": "inf", "minus inf": "-inf",
	"hex": "0x10", "empty": "", "negative": "-5", "zero": "0", "zeros": "007", "plus": "+1", "space": " 1", "half": "1.5",
	"word": "abc", "NUL": "1\x00",
	"2^53": "9007199254740992", "2^63": "9223372036854775808", "2^63-1": "9223372036854775807", "billion": "1000000000",
	"long digits": strings.Repeat("9", 1<<20), "long text": strings.Repeat("x", 1<<20+1), "escapes": "\x1b[2J\r\n<script>",
}

const (
	strangersOwner = "99f17b91-c6cc-889e-88f6-8265bee545cf:1" // of a holdfast that is gone
	redissonsOwner = "b983c153-7421-469a-addb-44fb92259a1b:1"
)

// strangeOwners may stand where an owner should: all have a colon, as every owner has.
var strangeOwners = map[string]string{
	"ordinary": strangersOwner, "of Redisson": redissonsOwner, "word": "nobody:1", "no text": "\xff:\xfe\x00",
	"escapes": "\x1b]0;own\x07\r\n<img src=x>\u202e:", "mode": "mode:", "long": strings.Repeat("o", 1<<20) + ":1", "colon": ":",
}

// strangeFields are no owners: they have none.
var strangeFields = []string{"user", "", "modes", "\xff\xfe\x00", strings.Repeat("x", 1<<20)}

// vandal is something hostile at a lock's keys.
type vandal struct {
	what     string
	commands []command // that put it there
	held     bool      // somebody seems to hold it, so it must not be granted
	// foreign says that it is no lock of any kind, so every call has to say so.
	foreign bool
}

// command is one of Redis. NAME stands for the lock's name, and {NAME} for that with a hash tag.
type command []any

// on is the command for a lock.
func (c command) on(name string) (args []any) {
	for _, arg := range c {
		if text, ok := arg.(string); ok {
			arg = strings.ReplaceAll(strings.ReplaceAll(text, "{NAME}", kit.Tagged(name)), "NAME", name)
		}
		args = append(args, arg)
	}
	return args
}

const (
	queue, timeouts = "redisson_lock_queue:{NAME}", "redisson_lock_timeout:{NAME}"
	token, next     = "redisson_lock_token:{NAME}", "holdfast_next:{NAME}"
)

// reads are one reader, and its first hold.
func reads(owner, count string) []command {
	return []command{{"HSET", "NAME", "mode", "read", owner, count}, {"SET", kit.ReadHold("NAME", owner, 1), "1"}}
}

// vandals are what could be done to a lock of a kind.
func vandals(k *kit.Kind) (all []vandal) {
	add := func(what string, held bool, commands ...command) {
		all = append(all, vandal{what: what, commands: commands, held: held})
	}
	foreign := func(what string, commands ...command) {
		all = append(all, vandal{what: what, commands: commands, held: true, foreign: true})
	}
	plain := !k.Shared && k.Mode == ""
	holds := func(owner, count string) command { // alone
		if plain {
			return command{"HSET", "NAME", owner, count}
		}
		return command{"HSET", "NAME", "mode", "write", owner + ":write", count}
	}
	for what, text := range strangeNumbers {
		add("count "+what, true, holds(strangersOwner, text))
		if !plain {
			add("reads "+what, false, reads(strangersOwner, text)...)
			add("reads "+what+", of Redisson", false, command{"HSET", "NAME", "mode", "read", redissonsOwner, text})
			add("mode "+what, true, command{"HSET", "NAME", "mode", text, strangersOwner, "1"})
			add("mode "+what+" of one who writes", true, command{"HSET", "NAME", "mode", text, strangersOwner + ":write", "1"})
		}
		if k.Fenced {
			add("token "+what, false, command{"SET", token, text})
			add("token and count "+what, true, command{"SET", token, text}, holds(strangersOwner, text))
		}
	}
	tomorrow := fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMilli())
	for what, owner := range strangeOwners {
		add("owner "+what, true, holds(owner, "1"))
		if !plain {
			add("reader "+what, k.Mode == "write", reads(owner, "1")...)
		}
		if !k.AlwaysListed {
			continue
		}
		stands := command{"RPUSH", queue, owner}
		add("in line "+what, false, stands)
		for _, score := range []string{"inf", "-inf", "1e300", tomorrow} {
			until := command{"ZADD", timeouts, score, owner}
			heard := command{"ZADD", "holdfast_lock_waiting:{NAME}", score, owner, score, "seen", score, "grace"}
			add("in line "+what+" for "+score, false, stands, until)
			add("in our line "+what+" for "+score, false, stands, until, heard)
		}
	}
	for _, ms := range []string{"9000000000000000000", "1000000000000000"} { // more than a duration of Go's has room for
		add("for "+ms, true, holds(strangersOwner, "1"), command{"PEXPIRE", "NAME", ms})
	}
	for _, field := range strangeFields {
		foreign(fmt.Sprintf("a field of another program, %.10q", field), command{"HSET", "NAME", field, "alice"})
	}
	foreign("fields of another program", command{"HSET", "NAME", "user", "bob", "mail", "b@example.com"})
	add("a writer's mode and nothing else", true, command{"HSET", "NAME", "mode", "write"})
	add("a writer's mode and a field of another program", true, command{"HSET", "NAME", "mode", "write", "user", "bob"})
	thousand := command{"HSET", "NAME"}
	for i := range 1000 {
		thousand = append(thousand, fmt.Sprint("field", i), "1")
	}
	foreign("a thousand fields", thousand)
	for _, key := range k.Keys {
		if strings.HasPrefix(key, "{NAME}:*") {
			key = kit.ReadHold("NAME", strangersOwner, 1)
		}
		for value, put := range values(key) {
			all = append(all, vandal{"a " + value + " at " + key, []command{put}, key == "NAME", key == "NAME"})
		}
	}
	return all
}

// values are one of each type, at a key.
func values(key string) map[string]command {
	return map[string]command{
		"string": {"SET", key, "x"}, "list": {"RPUSH", key, "x"}, "set": {"SADD", key, "x"},
		"sorted set": {"ZADD", key, "1", "x"}, "stream": {"XADD", key, "*", "x", "y"}, "hash": {"HSET", key, "x", "y", "z", "z"},
	}
}

// hostileServer is a server that somebody else writes to.
type hostileServer struct {
	t   *testing.T
	rdb *redis.Client
}

func newHostileServer(t *testing.T) *hostileServer {
	t.Helper()
	addr := redistest.Start(t).Addr()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: longestCall, WriteTimeout: longestCall})
	t.Cleanup(func() { _ = rdb.Close() })
	return &hostileServer{t, rdb}
}

// client is one that a vandal's victim has.
func (s *hostileServer) client(t *testing.T, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	defaults := []holdfast.ClientOption{holdfast.WithoutIdentity(), holdfast.WithTimeout(longestCall)}
	c, err := testclient.New(goredisdriver.New(s.rdb), append(defaults, options...)...)
	kit.OK(t, err)
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

// put does what a vandal does.
func (s *hostileServer) put(t *testing.T, v vandal, name string) {
	t.Helper()
	for _, c := range v.commands {
		s.do(t)(c.on(name)...)
	}
}

// contents are all keys of a name, without their times to live.
func (s *hostileServer) contents(t *testing.T, name string) map[string]string {
	t.Helper()
	keys, err := s.rdb.Keys(background, "*"+name+"*").Result()
	kit.OK(t, err)
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
	kit.Took(t, time.Since(began), 0, longestCall, what+" took %v")
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
				s.put(t, v, name)
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
	switch {
	case err == nil && !v.foreign:
		if v.held {
			t.Error("it was granted")
		}
		if k.Fenced && h.Token() <= 0 {
			t.Errorf("the token is %d", h.Token())
		}
		kit.OK(t, bounded(t, "Unlock", h.Unlock))
	case errors.Is(err, holdfast.ErrLocked) && !v.foreign:
		s.force(t, k, c, name)
	default:
		kit.WantError(t, err, holdfast.ErrOtherKind)
		s.refused(t, k, c, v, name, before)
	}
}

// force takes a lock from whoever seems to hold it, and has it then.
func (s *hostileServer) force(t *testing.T, k *kit.Kind, c *holdfast.Client, name string) {
	t.Helper()
	var failed *holdfast.BackendError
	l := k.Lock(c, name)
	err := bounded(t, "Lock", func() error { return errorOf(l.Lock(background, briefly)) })
	late := errors.As(err, &failed) && (failed.MayHaveRun || errors.Is(err, call.ErrNoAnswer)) // the machine is busy
	if !errors.Is(err, holdfast.ErrLocked) && !late {
		t.Errorf("Lock: %v", err)
	}
	var found holdfast.State
	kit.OK(t, bounded(t, "Inspect", func() (err error) { found, err = l.Inspect(background); return err }))
	stranger := s.client(t).NewOwner()
	err = bounded(t, "Adopt", func() error { return errorOf(l.Adopt(background, stranger)) })
	kit.WantError(t, err, holdfast.ErrNotHeld)
	if k.AlwaysListed && len(found.Holders) == 0 {
		// Nobody holds it; somebody is in line before it, for as long as that stands there.
		s.do(t)("DEL", "redisson_lock_queue:"+kit.Tagged(name), "redisson_lock_timeout:"+kit.Tagged(name))
		kit.Unlock(t, kit.Must(t)(l.Lock(background, holdfast.Wait(longestCall))))
		return
	}
	sides := []kit.AnyLock{l}
	if k.Mode != "" {
		m := c.NewRWMutex(name) // both sides, whoever is in the way
		sides = []kit.AnyLock{m, m.RLocker()}
	}
	forced := false
	for _, side := range sides {
		kit.OK(t, bounded(t, "ForceUnlock", func() error {
			done, err := side.ForceUnlock(background)
			forced = forced || done
			return err
		}))
	}
	if !forced {
		t.Fatal("ForceUnlock found nobody")
	}
	var h *holdfast.Hold
	// Not TryLock: the Lock above may still be about to leave a fair lock's line.
	lock := func() (err error) {
		h, err = l.Lock(background, holdfast.Wait(longestCall))
		return err
	}
	err = bounded(t, "Lock", lock)
	if errors.Is(err, holdfast.ErrOtherKind) && k.Fenced { // its token is none
		s.do(t)("DEL", "redisson_lock_token:"+kit.Tagged(name))
		err = lock()
	}
	kit.OK(t, err) // it is free now
	kit.Unlock(t, h)
}

// refused makes the other calls of what is no lock; before is what stood there before the first one.
func (s *hostileServer) refused(t *testing.T, k *kit.Kind, c *holdfast.Client, v vandal, name string, before map[string]string) {
	t.Helper()
	l := k.Lock(c, name)
	for what, call := range map[string]func() error{
		"Lock":        func() error { return errorOf(l.Lock(background, holdfast.Wait(longestCall))) },
		"Inspect":     func() error { return errorOf(l.Inspect(background)) },
		"ForceUnlock": func() error { return errorOf(l.ForceUnlock(background)) },
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
				if k.Nests() {
					_ = bounded(t, "nested Lock", func() error { return errorOf(k.Lock(c, name).TryLock(h.Context())) })
				}
				_ = bounded(t, "Extend", func() error { return h.Extend(background, 4*time.Second) })
				_ = bounded(t, "Inspect", func() error { return errorOf(k.Lock(c, name).Inspect(background)) })
				renewed := 1500 * time.Millisecond // once, at the least
				if k.Nests() {
					renewed = longestCall
				}
				select {
				case <-h.Context().Done():
				case <-time.After(renewed):
					if k.Nests() { // of the others Redis counts nothing
						t.Error("the holder was not told")
					}
				}
				if err := bounded(t, "Unlock", h.Unlock); k.Nests() && !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
				d := s.client(t)
				whole := k.Lock(d, name)
				if k.Mode != "" {
					whole = d.NewRWMutex(name)
				}
				kit.OK(t, bounded(t, "ForceUnlock", func() error { return errorOf(whole.ForceUnlock(background)) }))
				kit.Unlock(t, kit.Must(t)(k.Lock(d, name).Lock(background, holdfast.Wait(longestCall))))
			})
		}
	})
}

// TestHugeOwner has an owner of 4 MB hold a lock: its beginning alone stands in errors and in records.
func TestHugeOwner(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	name := kit.Fresh()
	s.put(t, vandal{commands: []command{{"HSET", "NAME", strings.Repeat("x", 4<<20) + ":1", "1"}}}, name)
	mu := s.client(t).NewMutex(name)
	_, err := mu.TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || len(err.Error()) > 512 {
		t.Fatalf("%.600v", err)
	}
	var text bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Error("refused", "error", err, "holder", locked.Holder)
	if text.Len() > 1024 || !strings.Contains(text.String(), "holder=") {
		t.Errorf("a record of %d bytes: %.600s", text.Len(), text.String())
	}
	if done, err := mu.ForceUnlock(background); !done || err != nil {
		t.Errorf("ForceUnlock: %v, %v", done, err)
	}
}

// clientKey says who the stranger's client is.
const clientKey = "holdfast_client:99f17b91-c6cc-889e"

// TestHostileIdentities has clients be somebody whom a vandal has invented.
func TestHostileIdentities(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	puts := map[string][]command{}
	for what, text := range strangeNumbers {
		puts[what] = identity(text)
	}
	puts["5 MB"] = identity(strings.Repeat("\x1b[31m", 1<<20))
	for value, put := range values(clientKey) {
		puts["a "+value] = []command{put}
	}
	for what, commands := range puts {
		t.Run(what, func(t *testing.T) {
			name := kit.Fresh()
			s.put(t, vandal{commands: append([]command{{"HSET", "NAME", strangersOwner, "1"}, {"DEL", clientKey}}, commands...)}, name)
			c := s.client(t, holdfast.WithIdentity(holdfast.Identity{Program: "victim"})) // who asks who others are
			mu, before := c.NewMutex(name), s.sent(t)
			_, err := mu.TryLock(background)
			kit.WantError(t, err, holdfast.ErrLocked)
			wantHarmless(t, "TryLock", err)
			state, err := mu.Inspect(background)
			if err != nil || len(state.Holders) != 1 {
				t.Fatalf("%+v, %v", state, err)
			}
			who, err := c.Who(background, state.Holders[0].Owner)
			if err != nil && commands[0][0] == "HSET" {
				t.Error(err)
			}
			for _, text := range []string{who.Program, who.Version, who.Host, who.String(), state.Holders[0].Who.String()} {
				if len(text) > 512 {
					t.Errorf("it says %d bytes of itself", len(text))
				}
				wantHarmless(t, "identity", errors.New(text))
			}
			if n := s.sent(t) - before; n > 64<<10 {
				t.Errorf("%d bytes came from Redis", n)
			}
			if done, err := mu.ForceUnlock(background); !done || err != nil {
				t.Errorf("ForceUnlock: %v, %v", done, err)
			}
		})
	}
}

// identity has everything that a client says of itself be a text.
func identity(text string) (commands []command) {
	for _, field := range []string{"program", "version", "host", "pid", "since", strangersOwner + " NAME"} {
		commands = append(commands, command{"HSET", clientKey, field, text})
	}
	return commands
}

// sent is how many bytes the server has sent, to everybody.
func (s *hostileServer) sent(t *testing.T) (n int) {
	t.Helper()
	n, err := strconv.Atoi(s.rdb.InfoMap(background, "stats").Item("Stats", "total_net_output_bytes"))
	kit.OK(t, err)
	return n
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

// errorOf drops the result of a call.
func errorOf[T any](_ T, err error) error { return err }

// given gives back what a call has got.
func given(h *holdfast.Hold, err error) error {
	if err != nil {
		return err
	}
	return h.Unlock()
}

var countedKinds = []counted{
	{
		name: "permits", keys: []string{"NAME", "{NAME}:timeout", next, "holdfast_calls:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			s, id := c.NewPermitSemaphore(name), kit.PermitID(strings.Repeat("ab", 16))
			return map[string]func() error{
				"TryLock":        func() error { return given(s.TryLock(background)) },
				"Acquire":        func() error { return given(s.Acquire(background, 2, briefly)) },
				"Inspect":        func() error { return errorOf(s.Inspect(background)) },
				"TrySetPermits":  func() error { return errorOf(s.TrySetPermits(background, 3)) },
				"AddPermits":     func() error { return s.AddPermits(background, 1) },
				"SetPermits":     func() error { return s.SetPermits(background, 4) },
				"ReleasePermits": func() error { return s.ReleasePermits(background, id) },
				"ExtendPermit":   func() error { return s.ExtendPermit(background, id, time.Minute) },
				"ForceUnlock":    func() error { return errorOf(s.ForceUnlock(background)) },
				"Expire":         func() error { return errorOf(s.Expire(background, time.Hour)) },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			s := c.NewPermitSemaphore(name, holdfast.Permits(2))
			_, err := s.Delete(background)
			// Who has just given up may still be on its way out.
			return cmp.Or(err, given(s.Lock(background, holdfast.Wait(time.Minute))))
		},
	},
	{
		name: "semaphore", keys: []string{"NAME", next, "holdfast_calls:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			s := c.NewUnleasedSemaphore(name)
			return map[string]func() error{
				"TryAcquire":      func() error { return s.TryAcquire(background, 1) },
				"Acquire":         func() error { return s.Acquire(background, 2, briefly) },
				"Release":         func() error { return s.Release(1) },
				"ReleaseIfExists": func() error { return errorOf(s.ReleaseIfExists(1)) },
				"TrySetPermits":   func() error { return errorOf(s.TrySetPermits(background, 3)) },
				"AddPermits":      func() error { return s.AddPermits(background, 1) },
				"Drain":           func() error { return errorOf(s.Drain(background)) },
				"Inspect":         func() error { return errorOf(s.Inspect(background)) },
				"Expire":          func() error { return errorOf(s.Expire(background, time.Hour)) },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			s := c.NewUnleasedSemaphore(name, holdfast.Permits(2))
			_, err := s.Delete(background)
			return cmp.Or(err, s.Acquire(background, 1, holdfast.Wait(time.Minute)))
		},
	},
	{
		name: "latch", keys: []string{"NAME", "holdfast_calls:{NAME}", "holdfast_zero:{NAME}"},
		calls: func(c *holdfast.Client, name string) map[string]func() error {
			l := c.NewLatch(name)
			return map[string]func() error{
				"TrySetCount": func() error { return errorOf(l.TrySetCount(background, 3)) },
				"CountDown":   l.CountDown,
				"Inspect":     func() error { return errorOf(l.Inspect(background)) },
				"Await":       func() error { return l.Await(background, briefly) },
			}
		},
		anew: func(c *holdfast.Client, name string) error {
			l := c.NewLatch(name)
			_, err := l.Delete(background)
			if done, setErr := l.TrySetCount(background, 1); setErr != nil || !done {
				return cmp.Or(err, setErr, errors.New("it was not set"))
			}
			return cmp.Or(err, l.CountDown())
		},
	},
}

// vandals are what could be done to it.
func (k counted) vandals() (all []vandal) {
	add := func(what string, commands ...command) {
		all = append(all, vandal{what: what, commands: append([]command{{"SET", "NAME", "1"}}, commands...)})
	}
	reserved := []string{"1 0 short", "99999999999999999999999 0 aaaaaaaaaaaaaaaa", "1 99999999999999999999999 aaaaaaaaaaaaaaaa"}
	for what, text := range strangeNumbers {
		for _, key := range k.keys {
			add(key+" "+what, command{"DEL", key}, command{"SET", key, text})
		}
		reserved = append(reserved, text+" "+text+" aaaaaaaaaaaaaaaa")
	}
	if k.name != "latch" {
		for _, text := range reserved {
			add(fmt.Sprintf("reserved %.20q", text), command{"SET", next, text})
		}
	}
	if k.name == "permits" {
		for _, score := range []string{"inf", "-inf", "1e300", "0", "-5"} {
			for _, id := range []string{"", "short", strings.Repeat("\xff", 16), strings.Repeat("i", 1<<20)} {
				add(fmt.Sprintf("permit %.20q until %s", id, score), command{"ZADD", "{NAME}:timeout", score, id})
			}
		}
	}
	for _, key := range k.keys {
		for value, put := range values(key) {
			if value != "string" {
				add("a "+value+" at "+key, command{"DEL", key}, put)
			}
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
						s.put(t, v, name)
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
							s.do(t)(command{"DEL", key}.on(name)...)
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
	for _, text := range []string{
		"\x1b]0;own\x07\x1b[2J", "a\r\nb", "<script>alert(1)</script>\u202e", "\x00\xff", strings.Repeat("\n", 1000),
	} {
		for _, k := range kit.Kinds {
			name := text + kit.Fresh()
			first := kit.Must(t)(k.Against(c, name).TryLock(background))
			_, err := k.Lock(s.client(t), name).TryLock(background)
			kit.WantError(t, err, holdfast.ErrLocked)
			wantHarmless(t, k.Name, err)
			kit.Unlock(t, first)
			wantHarmless(t, k.Name, first.Unlock())
			for _, put := range values(name) {
				s.do(t)("DEL", name)
				s.do(t)(put...)
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

// TestCrowdIsForced has 50,000 owners read, most of whom Inspect does not name: one call takes the lock from all of them.
func TestCrowdIsForced(t *testing.T) {
	t.Parallel()
	s := newHostileServer(t)
	m := s.client(t).NewRWMutex("x")
	for i := range 50 {
		fields := []any{"HSET", "x", "mode", "read"}
		for j := range 1000 {
			fields = append(fields, fmt.Sprintf("99f17b91-c6cc-479e-88f6-%06d%06d:1", i, j), "1")
		}
		s.do(t)(fields...)
	}
	s.do(t)("PEXPIRE", "x", "600000")
	kit.WantError(t, errorOf(m.TryLock(background)), holdfast.ErrLocked)
	state, err := m.RLocker().Inspect(background)
	if kit.OK(t, err); len(state.Holders) != protocol.Crowd {
		t.Errorf("%d readers are named", len(state.Holders))
	}
	some := []holdfast.Owner{state.Holders[0].Owner, state.Holders[1].Owner}
	done, err := m.RLocker().ForceUnlock(background, some...)
	if kit.OK(t, err); !done || s.rdb.HLen(background, "x").Val() != 50*1000+1-2 {
		t.Errorf("it is taken (%v) from others than those who are named: %d fields are left", done, s.rdb.HLen(background, "x").Val())
	}
	done, err = m.RLocker().ForceUnlock(background)
	if kit.OK(t, err); !done {
		t.Error("it is not taken")
	}
	kit.Unlock(t, kit.Must(t)(m.TryLock(background)))
}
