package servers

import (
	"errors"
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
		"S16_TokensFollowTime": tokensFollowTime,
		"S15_HeldWithoutTTL":   heldWithoutTTL,
		"L19_FencedIsBounded":  fencedIsBounded,
	})
}

// A6: what counts is the state in Redis, not the text of an error.
func nonReentrant(t *testing.T, p *kit.Platform) {
	mu := p.Client(t).NewMutex(kit.Fresh(), holdfast.NonReentrant())
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

// Tokens rise from client to client, with a takeover, too: it fences off the process that the lock was taken from. Nested
// holds have the outer one's, and readers and others none.
func tokensRise(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	var last int64
	rises := func(h *holdfast.Hold) {
		t.Helper()
		if h.Token() <= last || h.Token() >= 1<<53 {
			t.Errorf("token %d after %d", h.Token(), last)
		}
		last = h.Token()
	}
	for range 2 {
		mu := p.Client(t).NewMutex(name, holdfast.Fenced())
		h := kit.Must(t)(mu.Lock(background))
		rises(h)
		inner := kit.Must(t)(mu.Lock(h.Context()))
		if inner.Token() != last {
			t.Errorf("the nested hold has token %d beside %d", inner.Token(), last)
		}
		kit.Unlock(t, h)
		adopted := kit.Must(t)(p.Client(t).NewMutex(name, holdfast.Fenced()).Adopt(background, h.Owner()))
		rises(adopted)
		kit.Unlock(t, adopted)
		if found, err := mu.Inspect(background); err != nil || found.Token != last {
			t.Errorf("Inspect: token %d, %v", found.Token, err)
		}
	}
	wantReply(t, p, name, strconv.FormatInt(last, 10), "GET", "redisson_lock_token:{"+name+"}")
	wantReply(t, p, name, "-1", "PTTL", "redisson_lock_token:{"+name+"}")
	plain := kit.Must(t)(p.Client(t).NewMutex(name).Lock(background))
	rw := p.Client(t).NewRWMutex(kit.Fresh(), holdfast.Fenced())
	w := kit.Must(t)(rw.Lock(background))
	r := kit.Must(t)(rw.RLock(w.Context()))
	if plain.Token() != 0 || r.Token() != 0 || w.Token() == 0 {
		t.Errorf("tokens %d without Fenced, %d of a reader, %d of a writer", plain.Token(), r.Token(), w.Token())
	}
	kit.Unlock(t, r)
	kit.Unlock(t, w)
	kit.Unlock(t, plain)
}

// S16: the counter is gone, or counts from a replica that missed the last ones;
// or it is ahead of the clock. Tokens rise all the same.
func tokensFollowTime(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	key := "redisson_lock_token:{" + name + "}"
	mu := p.Client(t).NewMutex(name, holdfast.Fenced())
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
	wantFree(t, p, name)
}

// S15: a lock that never expires is held, and its refusal no grant.
func heldWithoutTTL(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	p.Do(t, name, "HSET", name, "somebody:1", "1")
	_, err := p.Client(t).NewMutex(name, holdfast.Fenced()).TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.TTL != holdfast.NoExpiry || locked.Holder.String() != "somebody:1" {
		t.Errorf("%+v", err)
	}
}

// wantPTTL checks that a key lives for about so long.
func wantPTTL(t *testing.T, p *kit.Platform, name, key string, want time.Duration) {
	t.Helper()
	if got := kit.PTTL(p.Ask(t, name), key); got > want || got < want-time.Minute {
		t.Errorf("%s lives for %v, want %v", key, got, want)
	}
}

// L19: one try is one try, and a lease is kept, with tokens as without.
func fencedIsBounded(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	mu := p.Client(t).NewMutex(name, holdfast.Fenced())
	h := kit.Must(t)(mu.Lock(background, holdfast.FixedLease(10*time.Minute)))
	wantPTTL(t, p, name, name, 10*time.Minute)
	_, err := mu.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	_, err = mu.Lock(background, holdfast.Wait(time.Second))
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
}

// P11: the key of the tokens can be given an end.
func tokenTTL(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	kit.Unlock(t, kit.Must(t)(p.Client(t).NewMutex(name, holdfast.Fenced(holdfast.TokenTTL(time.Hour))).Lock(background)))
	wantPTTL(t, p, name, "redisson_lock_token:{"+name+"}", time.Hour)
}

// Who polls does not listen.
func polling(t *testing.T, p *kit.Platform) {
	name, polls := kit.Fresh(), holdfast.Polling(5*time.Millisecond, 5*time.Millisecond)
	l, waits := p.Client(t).NewMutex(name, polls), p.Client(t).NewMutex(name, polls)
	h := kit.Must(t)(l.Lock(background))
	got := waiting(t, p, waits, l)
	wantReply(t, p, name, "", "PUBSUB", "CHANNELS", "*"+name+"*")
	kit.Unlock(t, h)
	kit.Unlock(t, <-got)
}
