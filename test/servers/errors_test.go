package servers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
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

// quiet is a client that has nothing to tell in the background, and nothing to
// wait for when it is closed.
func quiet(t *testing.T, p *kit.Platform, options ...holdfast.ClientOption) *holdfast.Client {
	t.Helper()
	var o told
	c, err := testclient.New(p.Open(t), append(options, o.hooks())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		if err := c.Close(); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		if errs, _ := o.all(); len(errs) > 0 {
			t.Errorf("told in the background: %v", errs)
		}
	})
	return c
}

// callsOf are calls that look at the key of a name.
func callsOf(c *holdfast.Client, class, name string) map[string]func() error {
	ofLock := func(l kit.AnyLock) map[string]func() error {
		return map[string]func() error{
			"TryLock":     func() error { _, err := l.TryLock(background); return err },
			"Lock":        func() error { _, err := l.Lock(background, holdfast.Wait(kit.Soon)); return err },
			"Inspect":     func() error { _, err := l.Inspect(background); return err },
			"ForceUnlock": func() error { _, err := l.ForceUnlock(background); return err },
		}
	}
	permits, semaphore, latch := c.NewPermitSemaphore(name), c.NewUnleasedSemaphore(name), c.NewLatch(name)
	switch class {
	case "permits":
		return map[string]func() error{
			"TryLock": func() error { _, err := permits.TryLock(background); return err },
			"Acquire": func() error { _, err := permits.Acquire(background, 2); return err },
			"Set":     func() error { return permits.SetPermits(background, 3) },
			"TrySet":  func() error { _, err := permits.TrySetPermits(background, 3); return err },
			"Add":     func() error { return permits.AddPermits(background, 3) },
			"Count":   func() error { _, err := kit.Available(permits); return err },
			"Inspect": func() error { _, err := permits.Inspect(background); return err },
			"Release": func() error { return permits.ReleasePermits(background, kit.PermitID(strings.Repeat("0", 32))) },
		}
	case "semaphore":
		return map[string]func() error{
			"TryAcquire": func() error { return semaphore.TryAcquire(background, 1) },
			"Acquire":    func() error { return semaphore.Acquire(background, 1) },
			"Release":    func() error { return semaphore.Release(1) },
			"TrySet":     func() error { _, err := semaphore.TrySetPermits(background, 3); return err },
			"Add":        func() error { return semaphore.AddPermits(background, 3) },
			"Drain":      func() error { _, err := semaphore.Drain(background); return err },
			"Available":  func() error { _, err := kit.Available(semaphore); return err },
		}
	case "latch":
		return map[string]func() error{
			"TrySet":    func() error { _, err := latch.TrySetCount(background, 3); return err },
			"Delete":    func() error { _, err := latch.Delete(background); return err },
			"CountDown": func() error { return latch.CountDown() },
			"Await":     func() error { return latch.Await(background) },
			"Remaining": func() error { _, err := kit.Remaining(latch); return err },
		}
	}
	for _, k := range kit.Kinds {
		if k.Name == class {
			return ofLock(k.Lock(c, name))
		}
	}
	multi := holdfast.NewMultiLock(c.NewMutex(name), c.NewMutex("{"+name+"}:other"))
	return map[string]func() error{
		"TryLock": func() error { _, err := multi.TryLock(background); return err },
	}
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
					var other kit.AnyLock
					for _, k := range kit.Kinds {
						if k.Name == held {
							other = k.Lock(p.Client(t), name)
						}
					}
					h := kit.Must(t)(other.Lock(background))
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
	s := redistest.Start(t, redistest.WithPassword("sesame"))
	open := redistest.Start(t)
	try := func(t *testing.T, c *holdfast.Client, says, unsure string) {
		t.Helper()
		t.Parallel()
		name := kit.Fresh()
		for what, call := range map[string]func() error{
			"Inspect":   func() error { _, err := c.NewMutex(name).Inspect(background); return err },
			"TryLock":   func() error { _, err := c.NewMutex(name).TryLock(background); return err },
			"Lock":      func() error { _, err := c.NewRWMutex(name).Lock(background); return err },
			"Fair":      func() error { _, err := c.NewFairMutex(name).Lock(background); return err },
			"Release":   func() error { return c.NewUnleasedSemaphore(name).Release(1) },
			"CountDown": func() error { return c.NewLatch(name).CountDown() },
		} {
			began := time.Now()
			err := call()
			// Behind a request that is too long the server closes the connection, and the client may notice that
			// first, one of go-redis also with the next call. Then it does not know what came of the call, and asks once more.
			var backend *holdfast.BackendError
			if errors.As(err, &backend) && backend.MayHaveRun && strings.Contains(err.Error(), unsure) {
				backend.MayHaveRun = false
			}
			kit.WantBackend(t, what, err, says)
			if took := time.Since(began); took > 4*time.Second { // the timeout is 6 s
				t.Errorf("%s took %v: it was repeated", what, took)
			}
			if strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%s tells a password: %v", what, err)
			}
		}
	}
	t.Run("go-redis/none", func(t *testing.T) {
		p := kit.GoRedis("none", redis.UniversalOptions{Addrs: []string{s.Addr()}}, nil)
		c := p.Client(t) // not quiet: it may not know what came of a call
		_, err := c.NewMutex(kit.Fresh()).TryLock(background)
		if err == nil || !strings.Contains(err.Error(), "Protocol error: unauthenticated") {
			t.Errorf("a long request: %v", err)
		}
		try(t, c, "wants a password", "wants a password")
	})
	t.Run("go-redis/wrong", func(t *testing.T) {
		try(t, quiet(t, kit.GoRedis("wrong", redis.UniversalOptions{Addrs: []string{s.Addr()}, Password: "wr0ng"}, nil)), "password of the Redis client is wrong", "unauthenticated")
	})
	// rueidis makes no client for a server that refuses it; it may refuse later.
	t.Run("rueidis/none", func(t *testing.T) {
		p := kit.RueidisAt("none", rueidis.ClientOption{InitAddress: []string{open.Addr()}}, nil)
		try(t, quiet(t, later(t, p, open)), "wants a password", "unauthenticated")
	})
	t.Run("rueidis/wrong", func(t *testing.T) {
		other := redistest.Start(t, redistest.WithPassword("wr0ng"))
		p := kit.RueidisAt("wrong", rueidis.ClientOption{InitAddress: []string{other.Addr()}, Password: "wr0ng"}, nil)
		try(t, quiet(t, later(t, p, other)), "password of the Redis client is wrong", "unauthenticated")
	})
}

// later is a platform whose server has another password once the driver is open.
func later(t *testing.T, p *kit.Platform, s *redistest.Server) *kit.Platform {
	t.Helper()
	d := p.Open(t)
	// A server without a password takes any.
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "wr0ng", PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, command := range [][]any{{"CONFIG", "SET", "requirepass", "sesame"}, {"CLIENT", "KILL", "TYPE", "normal"}} {
		if err := rdb.Do(background, command...).Err(); err != nil {
			t.Fatal(err)
		}
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
