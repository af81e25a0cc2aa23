package servers

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The options of a mutex, on every driver, in real time.
func TestMutexOptions(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
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
func nonReentrant(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	mu := c.NewMutex(name, holdfast.NonReentrant())
	h := kit.Must(t)(mu.Lock(background))
	_, err := mu.Lock(h.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	_, err = mu.TryLock(h.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	_, err = mu.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
	kit.Unlock(t, kit.Must(t)(mu.Lock(holdfast.WithOwner(background, h.Owner()))))
}

func tokensRise(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	var last int64
	for i := range 5 {
		mu := p.Client(t).NewMutex(name, holdfast.Fenced())
		h := kit.Must(t)(mu.Lock(background))
		if h.Token() <= last || h.Token() >= 1<<53 {
			t.Errorf("token %d after %d", h.Token(), last)
		}
		last = h.Token()
		inner := kit.Must(t)(mu.Lock(h.Context()))
		if inner.Token() != last {
			t.Errorf("the nested hold has token %d beside %d", inner.Token(), last)
		}
		if i%2 == 0 {
			kit.Unlock(t, h)
			kit.Unlock(t, inner)
		} else {
			kit.Unlock(t, inner)
			kit.Unlock(t, h)
		}
		found, err := mu.Inspect(background)
		if err != nil || found.Token != last {
			t.Errorf("Inspect: token %d, %v", found.Token, err)
		}
	}
	if got := p.Do(t, name, "GET", "redisson_lock_token:{"+name+"}"); fmt.Sprint(got) != fmt.Sprintf("[%d]", last) {
		t.Errorf("in Redis %v, want %d", got, last)
	}
	if got := p.Do(t, name, "PTTL", "redisson_lock_token:{"+name+"}"); got[0] != "-1" {
		t.Errorf("the token expires in %v ms", got)
	}
	plain := kit.Must(t)(p.Client(t).NewMutex(name).Lock(background))
	if plain.Token() != 0 {
		t.Errorf("a token without Fenced: %d", plain.Token())
	}
	kit.Unlock(t, plain)
}

// S16: the counter is gone, or counts from a replica that missed the last ones;
// or it is ahead of the clock. Tokens rise all the same.
func tokensFollowTime(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	key := "redisson_lock_token:{" + name + "}"
	mu := c.NewMutex(name, holdfast.Fenced())
	take := func() int64 {
		h := kit.Must(t)(mu.Lock(background))
		defer kit.Unlock(t, h)
		return h.Token()
	}
	first := take()
	p.Do(t, name, "SET", key, "17")
	second := take()
	p.Do(t, name, "DEL", key)
	third := take()
	ahead := third + int64(time.Hour/time.Microsecond)
	p.Do(t, name, "SET", key, strconv.FormatInt(ahead, 10))
	fourth := take()
	if second <= first || third <= second || fourth != ahead+1 {
		t.Errorf("tokens %d, %d, %d, %d", first, second, third, fourth)
	}
	p.Do(t, name, "SET", key, strconv.FormatInt(1<<53-1, 10))
	if _, err := mu.TryLock(background); err == nil {
		t.Error("a token beyond 2^53 was granted")
	}
	if got := p.Do(t, name, "EXISTS", name); got[0] != "0" {
		t.Error("the lock is held by a call that failed")
	}
}

// S15: a lock that never expires is held, and its refusal no grant.
func heldWithoutTTL(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	p.Do(t, name, "HSET", name, "somebody:1", "1")
	_, err := c.NewMutex(name, holdfast.Fenced()).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry || locked.Holder.String() != "somebody:1" {
		t.Errorf("%+v", err)
	}
}

// L19: one try is one try, and a lease is kept, with tokens as without.
func fencedIsBounded(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	mu := p.Client(t).NewMutex(name, holdfast.Fenced())
	h := kit.Must(t)(mu.Lock(background, holdfast.FixedLease(10*time.Minute)))
	if ms, err := strconv.Atoi(p.Do(t, name, "PTTL", name)[0]); err != nil || ms < 590_000 {
		t.Errorf("it lives for %d ms, %v", ms, err)
	}
	start := time.Now()
	_, err := mu.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	_, err = mu.Lock(background, holdfast.Wait(time.Second))
	kit.WantError(t, err, holdfast.ErrLocked)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	kit.Unlock(t, h)
}

// P11: the key of the tokens can be given an end.
func tokenTTL(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	kit.Unlock(t, kit.Must(t)(c.NewMutex(name, holdfast.Fenced(holdfast.TokenTTL(time.Hour))).Lock(background)))
	got := p.Do(t, name, "PTTL", "redisson_lock_token:{"+name+"}")
	if ms, err := strconv.Atoi(got[0]); err != nil || ms < 3_590_000 || ms > 3_600_000 {
		t.Errorf("the token expires in %v ms", got)
	}
}

// A token taken over is a greater one: the process that it was taken from is
// fenced off.
func adoptedToken(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	mu := p.Client(t).NewMutex(name, holdfast.Fenced())
	first := kit.Must(t)(mu.Lock(background))
	other := p.Client(t).NewMutex(name, holdfast.Fenced())
	second := kit.Must(t)(other.Adopt(background, first.Owner()))
	if second.Token() <= first.Token() {
		t.Errorf("adopted with token %d, taken with %d", second.Token(), first.Token())
	}
	kit.Unlock(t, second)
}

func polling(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	for _, b := range [][2]time.Duration{
		{time.Millisecond, 128 * time.Millisecond}, {5 * time.Millisecond, 5 * time.Millisecond}, {time.Millisecond, 10 * time.Millisecond},
	} {
		h := kit.Must(t)(p.Client(t).NewMutex(name, holdfast.Polling(b[0], b[1])).Lock(background))
		waiter := p.Client(t).NewMutex(name, holdfast.Polling(b[0], b[1]))
		got := make(chan *holdfast.Hold)
		go func() { got <- kit.Must(t)(waiter.Lock(background)) }()
		p.AwaitRefusal(t, p.Client(t).NewMutex(name, holdfast.Polling(b[0], b[1])))
		if channels := p.Do(t, name, "PUBSUB", "CHANNELS", "*"+name+"*"); len(channels) > 0 {
			t.Errorf("a polling waiter listens to %v", channels)
		}
		kit.Unlock(t, h)
		start := time.Now()
		kit.Unlock(t, <-got)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v to notice", took)
		}
	}
}
