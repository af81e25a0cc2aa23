package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// told are the errors that the background has told.
type told struct {
	mu       sync.Mutex
	errors   []error
	released int
}

func (o *told) hooks() holdfast.ClientOption {
	return holdfast.WithHooks(holdfast.Hooks{
		OnError: func(_ context.Context, e holdfast.Event) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.errors = append(o.errors, e.Err)
		},
		OnRelease: func(context.Context, holdfast.Event) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.released++
		},
	})
}

func (o *told) all() (all []error, released int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.errors), o.released
}

// quiet is a client that has nothing to tell in the background.
func quiet(t *testing.T, p *kit.Platform, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	var o told
	t.Cleanup(func() { // when it is closed
		if errs, _ := o.all(); len(errs) > 0 {
			t.Errorf("told in the background: %v", errs)
		}
	})
	return p.Client(t, append(options, o.hooks())...)
}

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

// callsOf are calls that look at the key of a name.
func callsOf(c *holdfast.Client, class, name string) map[string]func() error {
	permits, semaphore, latch := c.NewPermitSemaphore(name), c.NewUnleasedSemaphore(name), c.NewLatch(name)
	switch class {
	case "permits":
		return map[string]func() error{
			"TryLock": func() error { return errOf(permits.TryLock(background)) },
			"Acquire": func() error { return errOf(permits.Acquire(background, 2)) },
			"Set":     func() error { return permits.SetPermits(background, 3) },
			"TrySet":  func() error { return errOf(permits.TrySetPermits(background, 3)) },
			"Add":     func() error { return permits.AddPermits(background, 3) },
			"Inspect": func() error { return errOf(permits.Inspect(background)) },
			"Release": func() error { return permits.ReleasePermits(background, kit.PermitID(strings.Repeat("0", 32))) },
		}
	case "semaphore":
		return map[string]func() error{
			"TryAcquire": func() error { return semaphore.TryAcquire(background, 1) },
			"Acquire":    func() error { return semaphore.Acquire(background, 1) },
			"Release":    func() error { return semaphore.Release(1) },
			"TrySet":     func() error { return errOf(semaphore.TrySetPermits(background, 3)) },
			"Add":        func() error { return semaphore.AddPermits(background, 3) },
			"Drain":      func() error { return errOf(semaphore.Drain(background)) },
			"Inspect":    func() error { return errOf(semaphore.Inspect(background)) },
		}
	case "latch":
		return map[string]func() error{
			"TrySet":    func() error { return errOf(latch.TrySetCount(background, 3)) },
			"Delete":    func() error { return errOf(latch.Delete(background)) },
			"CountDown": func() error { return latch.CountDown() },
			"Await":     func() error { return latch.Await(background) },
			"Inspect":   func() error { return errOf(latch.Inspect(background)) },
		}
	case "multi":
		multi := holdfast.NewMultiLock(c.NewMutex(name), c.NewMutex("{"+name+"}:other"))
		return map[string]func() error{"TryLock": func() error { return errOf(multi.TryLock(background)) }}
	}
	l := lockOf(c, class, name)
	return map[string]func() error{
		"TryLock":     func() error { return errOf(l.TryLock(background)) },
		"Lock":        func() error { return errOf(l.Lock(background, holdfast.Wait(kit.Soon))) },
		"Inspect":     func() error { return errOf(l.Inspect(background)) },
		"ForceUnlock": func() error { return errOf(l.ForceUnlock(background)) },
	}
}

// lockOf makes a lock of the kind of that name.
func lockOf(c *holdfast.Client, kind, name string) kit.AnyLock {
	i := slices.IndexFunc(kit.Kinds, func(k *kit.Kind) bool { return k.Name == kind })
	return kit.Kinds[i].Lock(c, name)
}

// A name that is something else in Redis: the call says so, has no effect, and
// leaves nothing to tell or to wait for.
func TestOtherKindOfObject(t *testing.T) {
	t.Parallel()
	classes := []string{"permits", "semaphore", "latch", "multi"}
	for _, k := range kit.Kinds {
		classes = append(classes, k.Name)
	}
	values := map[string][]string{
		"string": {"SET", "", "something else"},
		"list":   {"RPUSH", "", "something else"},
		"hash":   {"HSET", "", "mode", "write", "someone", "1", "someone:write", "1"},
	}
	for _, p := range kit.Standalone(t) {
		for _, class := range classes {
			t.Run(p.Name+"/"+class, func(t *testing.T) {
				t.Parallel()
				for value, command := range values {
					name := kit.Fresh()
					command = slices.Clone(command)
					command[1] = name
					p.Do(t, name, command...)
					if value == "hash" && (strings.HasPrefix(class, "reader") || strings.HasPrefix(class, "writer")) {
						continue // that is what it should be
					}
					for what, call := range callsOf(quiet(t, p), class, name) {
						err := call()
						kit.WantError(t, err, holdfast.ErrOtherKind)
						kit.WantBackend(t, value+"/"+what, err, "another kind of object", name)
					}
					if keys := p.Do(t, name, "KEYS", "*"+name+"*"); !slices.Equal(keys, []string{name}) {
						t.Errorf("%s: keys %q", value, keys)
					}
				}
			})
		}
	}
}

// Two kinds of lock of one name, each a hash in Redis: whoever finds the other's
// there is told so.
func TestOtherKindOfLock(t *testing.T) {
	t.Parallel()
	plain, rw := []string{"mutex", "fair", "fenced", "polling"}, []string{"reader", "writer", "writer, writers first"}
	for _, p := range kit.Standalone(t) {
		for _, classes := range [][2][]string{{plain, rw}, {rw, plain}} {
			for _, held := range classes[0] {
				t.Run(p.Name+"/"+held, func(t *testing.T) {
					t.Parallel()
					name := kit.Fresh()
					h := kit.Must(t)(lockOf(p.Client(t), held, name).Lock(background))
					for _, class := range classes[1] {
						for what, call := range callsOf(quiet(t, p), class, name) {
							err := call()
							kit.WantError(t, err, holdfast.ErrOtherKind)
							kit.WantBackend(t, class+"/"+what, err, "another kind of")
						}
					}
					kit.Unlock(t, h) // nobody has changed it
				})
			}
		}
	}
}

// A lock that somebody overwrites is lost, and whoever unlocks it is told so.
// Nothing else is told, or waited for.
func TestOverwrittenWhileHeld(t *testing.T) {
	t.Parallel()
	for _, p := range kit.Standalone(t) {
		kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
			name := p.Fresh(t, k)
			h := kit.Must(t)(k.Lock(quiet(t, p), name).Lock(background))
			p.Do(t, name, "SET", name, "something else")
			err := h.Unlock()
			kit.WantError(t, err, holdfast.ErrLost, holdfast.ErrNotHeld)
			if !strings.Contains(err.Error(), "another kind of object") {
				t.Errorf("%v does not say why", err)
			}
			wantReply(t, p, name, "something else", "GET", name)
		})
	}
}

// A server that wants a password says so in three ways: NOAUTH, WRONGPASS, and, to
// a request that is too long for somebody without, that the protocol is wrong.
// None of them passes by itself, and none had an effect.
func TestPassword(t *testing.T) {
	t.Parallel()
	s, open := redistest.Start(t, redistest.WithPassword("sesame")), redistest.Start(t)
	other := redistest.Start(t, redistest.WithPassword("wr0ng"))
	goRedis := func(password string) *kit.Platform {
		return kit.GoRedis("", redis.UniversalOptions{Addrs: []string{s.Addr()}, Password: password}, nil)
	}
	// rueidis makes no client for a server that refuses it; it may refuse later.
	rueidisLater := func(at *redistest.Server, password string) *kit.Platform {
		return later(t, kit.RueidisAt("", rueidis.ClientOption{InitAddress: []string{at.Addr()}, Password: password}, nil), at)
	}
	const none, wrong = "wants a password", "password of the Redis client is wrong"
	for what, c := range map[string]struct {
		client *holdfast.Client
		says   string
		unsure string // what an error says of a call that may have run
	}{
		"go-redis/none":  {goRedis("").Client(t), none, none}, // not quiet: it may not know what came of a call
		"go-redis/wrong": {quiet(t, goRedis("wr0ng")), wrong, "unauthenticated"},
		"rueidis/none":   {quiet(t, rueidisLater(open, "")), none, "unauthenticated"},
		"rueidis/wrong":  {quiet(t, rueidisLater(other, "wr0ng")), wrong, "unauthenticated"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := kit.Fresh()
			for what, call := range map[string]func() error{
				"Inspect":   func() error { return errOf(c.client.NewMutex(name).Inspect(background)) },
				"TryLock":   func() error { return errOf(c.client.NewMutex(name).TryLock(background)) },
				"Lock":      func() error { return errOf(c.client.NewRWMutex(name).Lock(background)) },
				"Fair":      func() error { return errOf(c.client.NewFairMutex(name).Lock(background)) },
				"Release":   func() error { return c.client.NewUnleasedSemaphore(name).Release(1) },
				"CountDown": func() error { return c.client.NewLatch(name).CountDown() },
			} {
				err := call()
				// Behind a request that is too long the server closes the connection, and the client may notice that
				// first, one of go-redis also with the next call. Then it does not know what came of the call, and asks once more.
				var backend *holdfast.BackendError
				if errors.As(err, &backend) && backend.MayHaveRun && strings.Contains(err.Error(), c.unsure) {
					backend.MayHaveRun = false
				}
				kit.WantBackend(t, what, err, c.says)
				if text := fmt.Sprint(err); strings.Contains(text, "sesame") || strings.Contains(text, "wr0ng") {
					t.Errorf("%s tells a password: %v", what, err)
				}
			}
		})
	}
}

// A password stands in no record, whatever goes wrong.
func TestLogHooksTellNoPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithPassword("sesame"))
	var text bytes.Buffer
	p := kit.GoRedis("wrong", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: "default", Password: "wr0ng"}, nil)
	c := p.Client(t, holdfast.WithHooks(holdfast.LogHooks(slog.New(slog.NewTextHandler(&text, nil)), 0)))
	if _, err := c.NewMutex(kit.Fresh()).TryLock(background); err == nil {
		t.Fatal("no error")
	}
	got := text.String()
	for _, text := range []string{"level=WARN", "password of the Redis client is wrong"} {
		if !strings.Contains(got, text) {
			t.Errorf("logged %q, which does not say %q", got, text)
		}
	}
	if strings.Contains(got, "wr0ng") {
		t.Errorf("logged %q", got)
	}
}

// later is a platform whose server has another password once the driver is open.
func later(t *testing.T, p *kit.Platform, s *redistest.Server) *kit.Platform {
	t.Helper()
	d := p.Open(t)
	// A server without a password takes any.
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "wr0ng", PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, command := range [][]any{{"CONFIG", "SET", "requirepass", "sesame"}, {"CLIENT", "KILL", "TYPE", "normal"}} {
		kit.OK(t, rdb.Do(background, command...).Err())
	}
	// The first call may find its connection gone.
	_, _ = d.Eval(background, driver.Call{Script: driver.NewScript("one", "return 1")})
	p.Open = func(*testing.T) driver.Driver { return d }
	return p
}

// A user who lacks a right is told so. What is refused before the script has begun
// had no effect.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for lacking, rules := range map[string][]string{
		"the call": {"+@all", "-evalsha", "~*"},
		"the key":  {"+@all", "~elsewhere"},
		"a script": {"+@all", "-time", "~*"},
	} {
		for client := range kit.ClientRights {
			t.Run(lacking+"/"+client, func(t *testing.T) {
				t.Parallel()
				_, err := quiet(t, kit.Limited(t, s, client, kit.Fresh(), rules)).NewMutex(kit.Fresh()).Inspect(background)
				var backend *holdfast.BackendError
				if !errors.As(err, &backend) || !strings.Contains(err.Error(), "lacks a right, see docs/acl.md") {
					t.Fatalf("%v does not say that a right is lacking", err)
				}
				if lacking != "a script" {
					kit.WantBackend(t, lacking, err)
				}
			})
		}
	}
}
