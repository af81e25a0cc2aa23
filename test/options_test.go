package test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// The options of a mutex, on every driver, in real time.
func TestMutexOptions(t *testing.T) {
	onEveryDriver(t, map[string]func(*testing.T, *platform){
		"A6_NonReentrant":      nonReentrant,
		"TokensRise":           tokensRise,
		"P11_TokenTTL":         tokenTTL,
		"Polling":              polling,
		"AdoptedToken":         adoptedToken,
		"S16_TokensFollowTime": tokensFollowTime,
		"S15_HeldWithoutTTL":   heldWithoutTTL,
		"L19_FencedIsBounded":  fencedIsBounded,
	})
}

// A6: what counts is the state in Redis, not the text of an error.
func nonReentrant(t *testing.T, p *platform) {
	c, name := p.client(t), fresh()
	mu := c.NewMutex(name, holdfast.NonReentrant())
	h := must(t)(mu.Lock(background))
	_, err := mu.Lock(h.Context())
	wantError(t, err, holdfast.ErrReentrant)
	_, err = mu.TryLock(h.Context())
	wantError(t, err, holdfast.ErrReentrant)
	_, err = mu.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, h)
	unlock(t, must(t)(mu.Lock(holdfast.WithOwner(background, h.Owner()))))
}

func tokensRise(t *testing.T, p *platform) {
	name := fresh()
	var last int64
	for i := range 5 {
		mu := p.client(t).NewMutex(name, holdfast.Fenced())
		h := must(t)(mu.Lock(background))
		if h.Token() <= last || h.Token() >= 1<<53 {
			t.Errorf("token %d after %d", h.Token(), last)
		}
		last = h.Token()
		inner := must(t)(mu.Lock(h.Context()))
		if inner.Token() != last {
			t.Errorf("the nested hold has token %d beside %d", inner.Token(), last)
		}
		if i%2 == 0 {
			unlock(t, h)
			unlock(t, inner)
		} else {
			unlock(t, inner)
			unlock(t, h)
		}
		found, err := mu.Inspect(background)
		if err != nil || found.Token != last {
			t.Errorf("Inspect: token %d, %v", found.Token, err)
		}
	}
	if got := p.do(t, name, "GET", "redisson_lock_token:{"+name+"}"); fmt.Sprint(got) != fmt.Sprintf("[%d]", last) {
		t.Errorf("in Redis %v, want %d", got, last)
	}
	if got := p.do(t, name, "PTTL", "redisson_lock_token:{"+name+"}"); got[0] != "-1" {
		t.Errorf("the token expires in %v ms", got)
	}
	plain := must(t)(p.client(t).NewMutex(name).Lock(background))
	if plain.Token() != 0 {
		t.Errorf("a token without Fenced: %d", plain.Token())
	}
	unlock(t, plain)
}

// S16: the counter is gone, or counts from a replica that missed the last ones;
// or it is ahead of the clock. Tokens rise all the same.
func tokensFollowTime(t *testing.T, p *platform) {
	c, name := p.client(t), fresh()
	key := "redisson_lock_token:{" + name + "}"
	mu := c.NewMutex(name, holdfast.Fenced())
	take := func() int64 {
		h := must(t)(mu.Lock(background))
		defer unlock(t, h)
		return h.Token()
	}
	first := take()
	p.do(t, name, "SET", key, "17")
	second := take()
	p.do(t, name, "DEL", key)
	third := take()
	ahead := third + int64(time.Hour/time.Microsecond)
	p.do(t, name, "SET", key, strconv.FormatInt(ahead, 10))
	fourth := take()
	if second <= first || third <= second || fourth != ahead+1 {
		t.Errorf("tokens %d, %d, %d, %d", first, second, third, fourth)
	}
	p.do(t, name, "SET", key, strconv.FormatInt(1<<53-1, 10))
	if _, err := mu.TryLock(background); err == nil {
		t.Error("a token beyond 2^53 was granted")
	}
	if got := p.do(t, name, "EXISTS", name); got[0] != "0" {
		t.Error("the lock is held by a call that failed")
	}
}

// S15: a lock that never expires is held, and its refusal no grant.
func heldWithoutTTL(t *testing.T, p *platform) {
	c, name := p.client(t), fresh()
	p.do(t, name, "HSET", name, "somebody:1", "1")
	_, err := c.NewMutex(name, holdfast.Fenced()).TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry || locked.Holder.String() != "somebody:1" {
		t.Errorf("%+v", err)
	}
}

// L19: one try is one try, and a lease is kept, with tokens as without.
func fencedIsBounded(t *testing.T, p *platform) {
	name := fresh()
	mu := p.client(t).NewMutex(name, holdfast.Fenced())
	h := must(t)(mu.Lock(background, holdfast.FixedLease(10*time.Minute)))
	if ms, err := strconv.Atoi(p.do(t, name, "PTTL", name)[0]); err != nil || ms < 590_000 {
		t.Errorf("it lives for %d ms, %v", ms, err)
	}
	start := time.Now()
	_, err := mu.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	_, err = mu.Lock(background, holdfast.Wait(time.Second))
	wantError(t, err, holdfast.ErrLocked)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	unlock(t, h)
}

// P11: the key of the tokens can be given an end.
func tokenTTL(t *testing.T, p *platform) {
	c, name := p.client(t), fresh()
	unlock(t, must(t)(c.NewMutex(name, holdfast.Fenced(holdfast.TokenTTL(time.Hour))).Lock(background)))
	got := p.do(t, name, "PTTL", "redisson_lock_token:{"+name+"}")
	if ms, err := strconv.Atoi(got[0]); err != nil || ms < 3_590_000 || ms > 3_600_000 {
		t.Errorf("the token expires in %v ms", got)
	}
}

// A token taken over is a greater one: the process that it was taken from is
// fenced off.
func adoptedToken(t *testing.T, p *platform) {
	name := fresh()
	mu := p.client(t).NewMutex(name, holdfast.Fenced())
	first := must(t)(mu.Lock(background))
	other := p.client(t).NewMutex(name, holdfast.Fenced())
	second := must(t)(other.Adopt(background, first.Owner()))
	if second.Token() <= first.Token() {
		t.Errorf("adopted with token %d, taken with %d", second.Token(), first.Token())
	}
	unlock(t, second)
}

func polling(t *testing.T, p *platform) {
	name := fresh()
	for _, b := range [][2]time.Duration{
		{time.Millisecond, 128 * time.Millisecond}, {5 * time.Millisecond, 5 * time.Millisecond}, {time.Millisecond, 10 * time.Millisecond},
	} {
		h := must(t)(p.client(t).NewMutex(name, holdfast.Polling(b[0], b[1])).Lock(background))
		waiter := p.client(t).NewMutex(name, holdfast.Polling(b[0], b[1]))
		got := make(chan *holdfast.Hold)
		go func() { got <- must(t)(waiter.Lock(background)) }()
		p.awaitRefusal(t, p.client(t).NewMutex(name, holdfast.Polling(b[0], b[1])))
		if channels := p.do(t, name, "PUBSUB", "CHANNELS", "*"+name+"*"); len(channels) > 0 {
			t.Errorf("a polling waiter listens to %v", channels)
		}
		unlock(t, h)
		start := time.Now()
		unlock(t, <-got)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v to notice", took)
		}
	}
}

// One who polls listens to nobody, and says nothing when it gives back.
func TestPollingIsSilent(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		seen := count(d)
		holder, _ := w.client()
		polling := holdfast.Polling(time.Millisecond, 10*time.Millisecond)
		h := must(t)(holder.NewMutex("x", polling).Lock(background))
		got := make(chan *holdfast.Hold)
		go func() { got <- must(t)(c.NewMutex("x", polling).Lock(background)) }()
		time.Sleep(500 * time.Millisecond)
		if tries := seen.of("acquire"); tries < 10 {
			t.Errorf("asked %d times", tries)
		}
		w.wantReply("", "PUBSUB", "CHANNELS", "*x*")
		var messages atomic.Int32
		listener := w.server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				messages.Add(1)
			}
		})
		defer listener.Close()
		listener.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		start := time.Now()
		unlock(t, h)
		next := <-got
		if took := time.Since(start); took > 20*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
		unlock(t, next)
		synctest.Wait()
		if n := messages.Load(); n > 0 {
			t.Errorf("%d messages", n)
		}
		unlock(t, must(t)(holder.NewMutex("x").Lock(background))) // one who does not poll says something
		synctest.Wait()
		if messages.Load() == 0 {
			t.Error("the test does not hear what is said")
		}
	})
}

// Options that have no sense are refused before anything is sent.
func TestOptionsWithoutSense(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		sent := count(d)
		for i, options := range [][]holdfast.MutexOption{
			{nil},
			{holdfast.Fenced(nil)},
			{holdfast.Fenced(holdfast.TokenTTL(0))},
			{holdfast.Polling(0, 0)},
			{holdfast.Polling(-time.Second, -time.Second)},
			{holdfast.Polling(time.Second, time.Millisecond)},
		} {
			if _, err := c.NewMutex("a", options...).Lock(background); err == nil {
				t.Errorf("options %d are accepted", i)
			}
		}
		if n := sent.of("acquire"); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// A lease is renewed or it is not.
func TestContradictingLeases(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		fixed, renewed := holdfast.FixedLease(time.Second), holdfast.RenewedLease(2*time.Second)
		for _, l := range []holdfast.Locker{c.NewMutex("x"), c.NewRWMutex("x"), c.NewRWMutex("x").RLocker(), c.NewPermitSemaphore("x"), holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("{x}2"))} {
			for _, options := range [][]holdfast.TryOption{{fixed, renewed}, {renewed, fixed}} {
				_, err := l.TryLock(background, options...)
				wantError(t, err, holdfast.ErrInvalid)
			}
		}
		h := must(t)(c.NewMutex("x").TryLock(background, renewed, holdfast.RenewedLease(3*time.Second))) // the last of one kind counts
		unlock(t, h)
	})
}
