package servers

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The options of a mutex that Redis has a part in.
func TestMutexOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, p := range kit.Both("standalone", []string{s.Addr()}, kit.CLI(s)) {
		for what, test := range map[string]func(*testing.T, *kit.Platform){
			"A6_NonReentrant": nonReentrant, "Tokens": tokens,
		} {
			t.Run(p.Name+"/"+what, func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}

// A6: what counts is the state in Redis, not the text of an error.
func nonReentrant(t *testing.T, p *kit.Platform) {
	mu := p.Client(t).NewMutex(kit.Fresh(), holdfast.NonReentrant())
	h := kit.Must(t)(mu.Lock(background))
	kit.WantError(t, kit.ErrOf(mu.Lock(h.Context())), holdfast.ErrReentrant)
	kit.WantError(t, kit.ErrOf(mu.TryLock(h.Context())), holdfast.ErrReentrant)
	kit.WantError(t, kit.ErrOf(mu.TryLock(background)), holdfast.ErrLocked)
	kit.Unlock(t, h)
	kit.Unlock(t, kit.Must(t)(mu.Lock(holdfast.WithOwner(background, h.Owner()))))
}

// Tokens rise from client to client, with a takeover, too: it fences off the process that the lock was taken from. Nested
// holds have the outer one's, and readers and others none. P11: the key of the tokens can be given an end.
func tokens(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	key := "redisson_lock_token:{" + name + "}"
	fenced := func(options ...holdfast.TokenOption) *holdfast.Mutex {
		return p.Client(t).NewMutex(name, holdfast.Fenced(options...))
	}
	var last int64
	rises := func(h *holdfast.Hold) {
		t.Helper()
		if h.Token() <= last || h.Token() >= 1<<53 {
			t.Errorf("token %d after %d", h.Token(), last)
		}
		last = h.Token()
	}
	for range 2 {
		mu := fenced()
		h := kit.Must(t)(mu.Lock(background))
		rises(h)
		inner := kit.Must(t)(mu.Lock(h.Context()))
		if inner.Token() != last {
			t.Errorf("the nested hold has token %d beside %d", inner.Token(), last)
		}
		kit.Unlock(t, h)
		adopted := kit.Must(t)(fenced().Adopt(background, h.Owner()))
		rises(adopted)
		kit.Unlock(t, adopted)
		if found, err := mu.Inspect(background); err != nil || found.Token != last {
			t.Errorf("Inspect: token %d, %v", found.Token, err)
		}
	}
	wantReply(t, p, name, strconv.FormatInt(last, 10), "GET", key)
	wantReply(t, p, name, "-1", "PTTL", key)
	kit.Unlock(t, kit.Must(t)(fenced(holdfast.TokenTTL(time.Hour)).Lock(background)))
	if got := kit.PTTL(p.Ask(t, name), key); got > time.Hour || got < 50*time.Minute {
		t.Errorf("the key of the tokens lives for %v", got)
	}
	rw := p.Client(t).NewRWMutex(kit.Fresh(), holdfast.Fenced())
	w := kit.Must(t)(rw.Lock(background))
	r := kit.Must(t)(rw.RLock(w.Context()))
	if r.Token() != 0 || w.Token() == 0 {
		t.Errorf("tokens %d of a reader, %d of a writer", r.Token(), w.Token())
	}
	kit.Unlock(t, r)
	kit.Unlock(t, w)
}
