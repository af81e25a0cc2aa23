package interop

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// soon is within what a message must reach the other side.
const soon = 100 * time.Millisecond

var background = context.Background()

// pair is one real Redis between a Redisson and a holdfast.
type pair struct {
	*testing.T
	java  *Peer
	go1   *holdfast.Client
	redis *redistest.Server
}

// both runs a test with each version of Redisson.
func both(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Helper()
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			s := redistest.Start(t)
			ctx, cancel := context.WithTimeout(background, 5*time.Minute)
			defer cancel()
			java, err := Start(ctx, Config{Version: version, Mode: "single", Addresses: []string{s.Addr()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(java.Kill)
			test(t, &pair{T: t, java: java, go1: client(t, s), redis: s})
		})
	}
}

func client(t *testing.T, s *redistest.Server) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	c, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(background), rdb.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// do has a Java thread do something that has to succeed, within 20 s.
func (p *pair) do(thread, verb, kind, name string, numbers ...any) string {
	p.Helper()
	return p.get(p.java.Ask(thread, verb, kind, name, numbers...))
}

func (p *pair) get(answer func() (string, error)) string {
	p.Helper()
	value, err := answer()
	if err != nil {
		p.Fatal(err)
	}
	return value
}

func (p *pair) want(got, want string) {
	p.Helper()
	if got != want {
		p.Errorf("%q, want %q", got, want)
	}
}

func (p *pair) hold(h *holdfast.Hold, err error) *holdfast.Hold {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
	return h
}

func (p *pair) unlock(h *holdfast.Hold) {
	p.Helper()
	if err := h.Unlock(); err != nil {
		p.Error(err)
	}
}

// lock is what every kind of lock answers to on the Go side.
type lock interface {
	holdfast.Locker
	HoldCount(ctx context.Context, owner holdfast.Owner) (int, error)
	Inspect(ctx context.Context) (holdfast.Inspection, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// exclusive are the kinds that one holds alone, by Redisson's name for them.
var exclusive = map[string]func(c *holdfast.Client, name string) lock{
	"mutex":  func(c *holdfast.Client, name string) lock { return c.NewMutex(name) },
	"fenced": func(c *holdfast.Client, name string) lock { return c.NewMutex(name, holdfast.Fenced()) },
	"fair":   func(c *holdfast.Client, name string) lock { return c.NewFairMutex(name) },
	"write":  func(c *holdfast.Client, name string) lock { return c.NewRWMutex(name).Writer() },
}

// Each side holds, refuses the other, says who holds it, counts, and hands over by
// message; each takes the lock from the other by force.
func TestExclusiveKinds(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		for kind, create := range exclusive {
			t.Run(kind, func(t *testing.T) {
				p := &pair{T: t, java: p.java, go1: p.go1, redis: p.redis}
				name := "x:" + kind
				mu := create(p.go1, name)
				javaHolds(p, kind, name, mu)
				goHolds(p, kind, name, mu)
			})
		}
	})
}

func javaHolds(p *pair, kind, name string, mu lock) {
	p.do("T", "lock", kind, name)
	p.do("T", "lock", kind, name)
	thread := p.java.ID + ":" + p.do("T", "thread", kind, name)
	_, err := mu.TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.Holder != thread || locked.TTL < 25*time.Second {
		p.Errorf("held by Java: %v", err)
	}
	owner, err := holdfast.ParseOwner(thread)
	if err != nil {
		p.Fatal(err)
	}
	if n, err := mu.HoldCount(background, owner); n != 2 || err != nil {
		p.Errorf("HoldCount of Java's thread: %d, %v", n, err)
	}
	got := make(chan time.Time)
	go func() {
		h, err := mu.Lock(background)
		got <- time.Now()
		if err == nil {
			err = h.Unlock()
		}
		if err != nil {
			p.Error(err)
		}
		close(got)
	}()
	p.subscribed(name)
	p.do("T", "unlock", kind, name)
	left := time.Now()
	p.do("T", "unlock", kind, name)
	if took := (<-got).Sub(left); took > soon {
		p.Errorf("Java to Go took %v", took)
	}
	<-got
	p.do("T", "lock", kind, name)
	if did, err := mu.ForceUnlock(background); !did || err != nil {
		p.Errorf("ForceUnlock: %v, %v", did, err)
	}
	p.want(p.do("T", "held", kind, name), "false")
}

func goHolds(p *pair, kind, name string, mu lock) {
	h := p.hold(mu.Lock(background))
	nested := p.hold(mu.Lock(h.Context()))
	p.want(p.do("T", "trylock", kind, name, 0, 0), "false")
	p.want(p.do("T", "locked", kind, name), "true")
	if ttl, err := strconv.Atoi(p.do("T", "ttl", kind, name)); err != nil || ttl < 25_000 {
		p.Errorf("Java sees a time to live of %d, %v", ttl, err)
	}
	answer := p.java.Ask("T", "trylock", kind, name, 20_000, 0)
	p.subscribed(name)
	p.unlock(nested)
	p.unlock(h)
	left := time.Now()
	p.want(p.get(answer), "true")
	if took := time.Since(left); took > soon {
		p.Errorf("Go to Java took %v", took)
	}
	p.do("T", "unlock", kind, name)
	h = p.hold(mu.Lock(background))
	p.want(p.do("T", "force", kind, name), "true")
	if err := h.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		p.Errorf("after Java's force: %v", err)
	}
}

// nothingLeft looks for keys of the lock. Redisson 3 leaves its unlock latches to
// expire, and does not know our heartbeats, which expire, too, if it is the one who
// empties a line.
func (p *pair) nothingLeft() {
	p.Helper()
	for key := range strings.FieldsSeq(p.redis.Cli(p, "KEYS", "*")) {
		expires := p.redis.Cli(p, "PTTL", key) != "-1"
		if !expires || !strings.HasPrefix(key, "redisson_unlock_latch:") && !strings.HasPrefix(key, "holdfast_lock_waiting:") {
			p.Errorf("left behind: %s", key)
		}
	}
}

// subscribed returns when somebody listens to a channel of the lock.
func (p *pair) subscribed(name string) {
	p.Helper()
	for deadline := time.Now().Add(10 * time.Second); p.redis.Cli(p, "PUBSUB", "CHANNELS", "*{"+name+"}*") == ""; {
		if time.Now().After(deadline) {
			p.Fatal("nobody listens")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Readers of both sides share the lock; a writer of either waits for them; either
// writer downgrades, and the other side's readers come in.
func TestReadWrite(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		m := p.go1.NewRWMutex("rw")
		r := p.hold(m.Reader().Lock(background))
		p.want(p.do("A", "trylock", "read", "rw", 0, 0), "true")
		p.want(p.do("B", "trylock", "read", "rw", 0, 0), "true")
		p.want(p.do("C", "trylock", "write", "rw", 0, 0), "false")
		if _, err := m.Writer().TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("a writer beside Java's readers: %v", err)
		}
		found, err := m.Reader().Inspect(background)
		if err != nil || len(found.Holders) != 3 || found.Mode != "read" {
			t.Errorf("%+v, %v", found, err)
		}
		answer := p.java.Ask("C", "trylock", "write", "rw", 20_000, 0)
		p.subscribed("rw")
		p.do("A", "unlock", "read", "rw")
		p.do("B", "unlock", "read", "rw")
		p.unlock(r)
		left := time.Now()
		p.want(p.get(answer), "true")
		if took := time.Since(left); took > soon {
			t.Errorf("the last reader, Go, to Java's writer took %v", took)
		}
		// Java downgrades. It tells nobody (L10): a reader of ours finds out by itself.
		p.want(p.do("C", "trylock", "read", "rw", 0, 0), "true")
		p.do("C", "unlock", "write", "rw")
		r = p.hold(m.Reader().Lock(background, holdfast.Wait(5*time.Second)))
		p.do("C", "unlock", "read", "rw")
		if err := r.Context().Err(); err != nil {
			t.Errorf("our reader is lost after Java's has left: %v", err)
		}
		p.unlock(r)
		p.nothingLeft()
		// We downgrade.
		w := p.hold(m.Writer().Lock(background))
		r = p.hold(m.Reader().Lock(holdfast.WithOwner(background, w.Owner())))
		answer = p.java.Ask("A", "trylock", "read", "rw", 20_000, 0)
		p.subscribed("rw")
		p.unlock(w)
		left = time.Now()
		p.want(p.get(answer), "true")
		if took := time.Since(left); took > soon {
			t.Errorf("our downgrade to Java's reader took %v", took)
		}
		p.unlock(r)
		p.do("A", "unlock", "read", "rw")
		p.nothingLeft()
	})
}

// Tokens rise whichever side takes them.
func TestFencedTokens(t *testing.T) {
	both(t, func(t *testing.T, p *pair) {
		mu := p.go1.NewMutex("f", holdfast.Fenced())
		var last int64
		for i := range 6 {
			var token int64
			if i%2 == 0 {
				h := p.hold(mu.Lock(background))
				token = h.Token()
				p.unlock(h)
			} else {
				var err error
				if token, err = strconv.ParseInt(p.do("T", "token", "fenced", "f"), 10, 64); err != nil {
					t.Fatal(err)
				}
				p.do("T", "unlock", "fenced", "f")
			}
			if token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = token
		}
	})
}
