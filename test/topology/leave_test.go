package topology

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/rueidisdriver"
	"github.com/holdfast-go/holdfast/test/kit"
	"github.com/holdfast-go/holdfast/valkeydriver"
)

// The longest that Redis keeps what a client that was closed has left there.
const keepsForLong = 6 * time.Minute

// allAdapters returns a driver of each adapter, with a connection of its own. Without a name of the primary, the addresses are
// those of servers.
func allAdapters(t *testing.T, addrs []string, primary string) map[string]driver.Driver {
	t.Helper()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, MasterName: primary})
	t.Cleanup(func() { kit.OK(t, rdb.Close()) })
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, Sentinel: rueidis.SentinelOption{MasterSet: primary}})
	kit.OK(t, err)
	t.Cleanup(r.Close)
	v, err := valkey.NewClient(valkey.ClientOption{InitAddress: addrs, Sentinel: valkey.SentinelOption{MasterSet: primary}})
	kit.OK(t, err)
	t.Cleanup(v.Close)
	return map[string]driver.Driver{"go-redis": goredisdriver.New(rdb), "rueidis": rueidisdriver.New(r), "valkey-go": valkeydriver.New(v)}
}

// busy are two clients of one adapter. The first holds a lock of each kind, and the second waits for each.
type busy struct {
	adapter string
	clients []*holdfast.Client
	names   []string
	waiters sync.WaitGroup
}

// beginBusy returns when all is held, and waited for.
func beginBusy(t *testing.T, adapter string, d driver.Driver, options ...holdfast.ClientOption) *busy {
	t.Helper()
	b := &busy{adapter: adapter}
	for range 2 {
		c, err := holdfast.New(d, options...)
		kit.OK(t, err)
		b.clients = append(b.clients, c)
	}
	var held []holdfast.Locker
	var waited []holdfast.Locker
	for _, k := range kit.Kinds {
		name := kit.Fresh()
		b.names = append(b.names, name)
		held, waited = append(held, k.Lock(b.clients[0], name)), append(waited, k.Against(b.clients[1], name))
	}
	name := kit.Fresh()
	b.names = append(b.names, name)
	kit.OK(t, b.clients[0].NewPermitSemaphore(name).SetPermits(background, 1))
	held, waited = append(held, b.clients[0].NewPermitSemaphore(name)), append(waited, b.clients[1].NewPermitSemaphore(name))
	for i, l := range held {
		kit.Must(t)(l.Lock(background))
		began := make(chan struct{})
		b.waiters.Go(func() {
			_, err := waited[i].Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { close(began) }}))
			if err == nil || !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("%s: a waiter for %s: %v", adapter, waited[i].Name(), err)
			}
		})
		<-began
	}
	return b
}

// end closes the waiting client and then the other one.
func (b *busy) end(t *testing.T) {
	t.Helper()
	for _, c := range slices.Backward(b.clients) {
		if err := c.Close(); err != nil {
			t.Errorf("%s: Close: %v", b.adapter, err)
		}
	}
	b.waiters.Wait()
}

// hashes are the keys of what the clients say of themselves.
func (b *busy) hashes() (keys []string) {
	for _, c := range b.clients {
		keys = append(keys, "holdfast_client:"+c.ID()[:18])
	}
	return keys
}

// Close speaks to a primary that was replaced, as for a second or so of each failover: what it takes back there, the new one
// has still. All of it ends by itself.
func TestWhatAReplacedPrimaryTakesBackExpires(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	promoted := s.Replicas[0]
	var all []*busy
	var hashes, remain []string
	for adapter, d := range allAdapters(t, []string{s.Primary.Addr()}, "") {
		b := beginBusy(t, adapter, d)
		all, hashes = append(all, b), append(hashes, b.hashes()...)
		for _, name := range b.names {
			remain = append(remain, "redisson_lock_token:"+kit.Tagged(name)) // for good, as Redisson's
		}
		permits := b.names[len(b.names)-1]
		remain = append(remain, permits, kit.Tagged(permits)+":timeout") // the time of each permit stands in it
	}
	keys := func() []string { return kit.Lines(promoted.Cli(t, "KEYS", "*")) }
	kit.WaitFor(t, "the replica to have what the clients say", func() bool {
		found := keys()
		return !slices.ContainsFunc(hashes, func(hash string) bool { return !slices.Contains(found, hash) })
	})
	promoted.Cli(t, "REPLICAOF", "NO", "ONE")
	for _, b := range all {
		b.end(t)
	}
	left := keys()
	for _, hash := range hashes {
		if !slices.Contains(left, hash) {
			t.Errorf("%s is not left: the promoted replica was told", hash)
		}
	}
	for _, key := range left {
		if ttl := kit.Number(promoted.Cli(t, "PTTL", key)); !slices.Contains(remain, key) && (ttl == -1 || ttl > int(keepsForLong.Milliseconds())) {
			t.Errorf("%s lives for %d ms more", key, ttl)
		}
	}
}

// The primary dies, and clients are closed before there is another one. Close waits for that, to give back what is held, and
// what the clients say of themselves goes, too.
func TestCloseWhileNobodyIsPrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	var all []*busy
	for adapter, d := range allAdapters(t, s.Addrs(), s.MasterName()) {
		all = append(all, beginBusy(t, adapter, d, holdfast.WithTimeout(30*time.Second)))
	}
	s.AwaitRecovery(t) // the replica has all
	old := s.KillPrimary(t)
	var closing sync.WaitGroup
	for _, b := range all {
		closing.Go(func() { b.end(t) })
	}
	left := kit.Lines(s.WaitNewPrimary(t, old).Cli(t, "KEYS", "*"))
	closing.Wait()
	t.Logf("the new primary began with %d keys", len(left))
	left = kit.Lines(s.Primary(t).Cli(t, "KEYS", "*"))
	for _, b := range all {
		for i, hash := range b.hashes() {
			if slices.Contains(left, hash) {
				t.Errorf("%s: %s of client %d is left", b.adapter, hash, i)
			}
		}
		for _, name := range b.names[:len(b.names)-1] { // the last are permits, which stay, but are free
			if slices.Contains(left, name) {
				t.Errorf("%s: %s is left", b.adapter, name)
			}
		}
	}
}
