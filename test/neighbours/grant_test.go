package neighbours

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A forger hears whatever is said on the server, and publishes what a grant would say, with the rights of a neighbour that has
// its own locks there. Somebody listens beside the waitlist, so that a release does not grant the lock to the one who waits, but has
// it ask again. No waiter begins a hold that does not stand in Redis.
func TestForgedGrants(t *testing.T) {
	s := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { kit.OK(t, admin.Close()) })
	kit.Allow(t, s, "theirs", kit.MutexKind.Rights.And(rights.Line()).Rules("theirs"))
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if k.Listed() || k.AlwaysListed {
			forged(t, s, admin, k)
		}
	})
	t.Run("permits", func(t *testing.T) {
		t.Parallel()
		forgedPermits(t, s, admin)
	})
}

// rounds is how often each of them waits, at least: on a busy machine the forger is often too late, so they go on until it has forged
// forgeries, or for maxRounds.
const rounds, forgeries, maxRounds = 30, 10, 300

func forged(t *testing.T, s *redistest.Server, admin *redis.Client, k *kit.Kind) {
	p := kit.GoRedis("ours", redis.UniversalOptions{Addrs: []string{s.Addr()}}, func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return strings.Split(s.Cli(t, args...), "\n")
	})
	name := "ours:" + strings.ReplaceAll(k.Name, " ", "-")
	holder, waiter := p.Client(t), p.Client(t)
	beside := admin.Subscribe(background, k.Channel(name))
	defer func() { kit.OK(t, beside.Close()) }()
	f := startForger(t, s, waiter)
	for i := 0; f.goesOn(i); i++ {
		before := f.forged.Load()
		h := kit.Must(t)(k.Against(holder, name).Lock(background, holdfast.MinHold(30*time.Millisecond)))
		owner := waiter.NewOwner()
		got := make(chan *holdfast.Hold, 1)
		go func() {
			h, err := k.Lock(waiter, name).Lock(holdfast.WithOwner(background, owner))
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		f.awaitAsk(t, name, k.Field(owner.String()))
		kit.Unlock(t, h) // the lock is kept for a while, or left to others: the waiter is told to ask
		granted := <-got
		if granted == nil {
			return
		}
		if held := k.Stands(p.Ask(t, name), name); held[owner.String()] != 1 {
			t.Errorf("round %d: %s began a hold, but %v hold it in Redis; %d grants were forged", i, owner, held, f.forged.Load()-before)
		}
		kit.Unlock(t, granted)
	}
	f.end(t)
}

func forgedPermits(t *testing.T, s *redistest.Server, admin *redis.Client) {
	p := kit.GoRedis("ours", redis.UniversalOptions{Addrs: []string{s.Addr()}}, nil)
	name := "ours:permits"
	holder, waiter := p.Client(t), p.Client(t)
	if ok, err := holder.NewPermitSemaphore(name).TrySetPermits(background, 2); !ok || err != nil {
		t.Fatal(ok, err)
	}
	beside := admin.Subscribe(background, protocol.SemaphoreChannel(name))
	defer func() { kit.OK(t, beside.Close()) }()
	f := startForger(t, s, waiter)
	for i := 0; f.goesOn(i); i++ {
		all := kit.Must(t)(holder.NewPermitSemaphore(name).Acquire(background, 2))
		got := make(chan *holdfast.Hold, 1)
		go func() {
			h, err := waiter.NewPermitSemaphore(name).Acquire(background, 2)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		f.awaitAsk(t, name, "")
		if i%2 == 0 { // what is granted of a semaphore that ends soon is not granted aloud
			s.Cli(t, "PEXPIRE", name, "60000")
		} else {
			s.Cli(t, "PERSIST", name)
		}
		kit.Unlock(t, all)
		granted := <-got
		if granted == nil {
			return
		}
		if held := s.Cli(t, "ZCARD", protocol.PermitsKey(name)); held != "2" {
			t.Errorf("round %d: 2 permits are held here, and %s in Redis", i, held)
		}
		kit.Unlock(t, granted)
	}
	f.end(t)
}

// forger is a neighbour that hears everything, and forges grants for one client.
type forger struct {
	admin  *redis.Client // hears
	theirs *redis.Client // publishes
	heard  *redis.PubSub
	done   chan struct{}
	forged atomic.Int64

	mu    sync.Mutex
	words []string // of messages that granted nothing
}

func startForger(t *testing.T, s *redistest.Server, victim *holdfast.Client) *forger {
	t.Helper()
	f := &forger{
		admin:  redis.NewClient(&redis.Options{Addr: s.Addr()}),
		theirs: redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "theirs", Password: "pw"}),
		done:   make(chan struct{}),
	}
	f.heard = f.admin.PSubscribe(background, "holdfast_granted:*")
	_, err := f.heard.Receive(background)
	kit.OK(t, err)
	go func() {
		defer close(f.done)
		for m := range f.heard.Channel() {
			if word, _, again := strings.Cut(m.Payload, " "); again && m.Channel == "holdfast_granted:"+victim.ID() {
				f.forge(t, m.Channel, word)
			}
		}
	}()
	return f
}

// forge says all that a grant of that ask might say.
func (f *forger) forge(t *testing.T, channel, word string) {
	f.mu.Lock()
	f.words = append(f.words, word)
	f.mu.Unlock()
	bare, since, _ := strings.Cut(word, "_")
	rest := strings.Repeat("A", max(0, 26-len(bare)))
	for _, payload := range []string{word, bare, bare + "_" + since, bare + "_1795901735205", bare + bare, bare + rest, bare + rest + "_1795901735205"} {
		if err := f.theirs.Publish(background, channel, payload).Err(); err != nil {
			t.Errorf("it may not even publish: %v", err)
		}
	}
	f.forged.Add(1)
}

// awaitAsk waits until somebody stands in the line with an ask: one with that field, if there is one.
func (f *forger) awaitAsk(t *testing.T, name, field string) {
	t.Helper()
	kit.WaitFor(t, "an ask", func() bool {
		asks, err := f.admin.HGetAll(background, protocol.RequestsKey(name)).Result()
		return err == nil && (len(asks) > 0 && field == "" || asks[field] != "")
	})
}

// goesOn reports whether there is to be another round after so many.
func (f *forger) goesOn(after int) bool {
	return after < rounds || f.forged.Load() < forgeries && after < maxRounds
}

// end stops it, and fails if it had nothing to forge, or heard a whole number.
func (f *forger) end(t *testing.T) {
	t.Helper()
	kit.OK(t, f.heard.Close())
	<-f.done
	kit.OK(t, f.theirs.Close(), f.admin.Close())
	if f.forged.Load() < forgeries {
		t.Errorf("%d grants were forged: the test is about nothing", f.forged.Load())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.words, func(word string) bool { return len(word) != 13 }); i >= 0 {
		t.Errorf("an ask is named as %q by what grants nothing", f.words[i])
	}
}

// TestForgedDelays: whoever has heard what an ask is called can tell the waiter to ask later, again and again. It asks when it would have asked
// anyway, so it notices in time that the lock is free.
func TestForgedDelays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := kit.GoRedis("ours", redis.UniversalOptions{Addrs: []string{s.Addr()}}, nil)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { kit.OK(t, rdb.Close()) })
	holder, waiter := p.Client(t), p.Client(t)
	h := kit.Must(t)(holder.NewMutex("x").Lock(background))
	got := make(chan error, 1)
	go func() { got <- given(waiter.NewMutex("x").Lock(background)) }()
	kit.WaitFor(t, "an ask", func() bool { return rdb.HLen(background, protocol.RequestsKey("x")).Val() == 1 })
	kit.OK(t, rdb.Del(background, "x").Err()) // nobody is told
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, ask := range rdb.HVals(background, protocol.RequestsKey("x")).Val() {
			kit.OK(t, rdb.Publish(background, grantChannel(waiter), protocol.AskName(ask)+" 1000").Err())
		}
		select {
		case err := <-got:
			kit.OK(t, err)
			_ = h.Unlock() // it is lost
			return
		default:
		}
	}
	t.Errorf("the waiter has not asked for %v", patience)
}
