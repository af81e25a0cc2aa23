package servers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/fencing"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A server is killed and comes back. With every write on disk a hold goes on, and nobody else gets the lock. With
// nothing on disk another one gets it, and who held it is told.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	for what, options := range map[string][]redistest.Option{"nothing on disk": nil, "every write on disk": {redistest.WithAppendOnly()}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, p, _ := started(t, options...)
			// Long enough for a busy machine to start a server; renewed, it is lost within a third of it.
			a, b := p.Client(t, holdfast.WithLease(12*time.Second)), p.Client(t)
			holds, names := map[*kit.Kind]*holdfast.Hold{}, map[*kit.Kind]string{}
			for _, k := range kit.Kinds {
				names[k] = kit.Fresh()
				holds[k] = kit.Must(t)(k.Lock(a, names[k]).Lock(background))
			}
			s.Restart()
			for _, k := range kit.Kinds {
				other, err := k.Against(b, names[k]).TryLock(background)
				if len(options) > 0 {
					kit.WantError(t, err, holdfast.ErrLocked)
					if cause := holds[k].Context().Err(); cause != nil {
						t.Errorf("%s: the hold is lost: %v", k.Name, cause)
					}
					kit.Unlock(t, holds[k])
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", k.Name, err)
					continue
				}
				<-holds[k].Context().Done()
				kit.WantLost(t, holds[k])
				_ = holds[k].Unlock() // it says that the hold was lost
				kit.Unlock(t, other)
			}
		})
	}
}

// One replica has acknowledged the acquire, and the other one is promoted: two hold the lock, which no acknowledgement by
// some excludes. The token that the second one gets is greater all the same, so the first one's write is refused.
func TestPromotedReplicaThatDidNotAcknowledge(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	primary := kit.GoRedis("primary", redis.UniversalOptions{Addrs: []string{s.Primary.Addr()}}, kit.Direct(t, s.Primary))
	behind := s.Replicas[1]
	behind.Cli(t, "REPLICAOF", "127.0.0.1", "1") // it hears of nothing any more
	kit.WaitFor(t, "one replica", func() bool { return strings.Contains(s.Primary.Cli(t, "INFO", "replication"), "connected_slaves:1") })
	name := kit.Fresh()
	first := kit.Must(t)(primary.Client(t, holdfast.WithReplicaAck(1, 5*time.Second)).NewMutex(name, holdfast.Fenced()).Lock(background))
	behind.Cli(t, "REPLICAOF", "NO", "ONE")
	promoted := kit.GoRedis("promoted", redis.UniversalOptions{Addrs: []string{behind.Addr()}}, kit.Direct(t, behind))
	second := kit.Must(t)(promoted.Client(t).NewMutex(name, holdfast.Fenced()).TryLock(background))
	if first.Context().Err() != nil || second.Token() <= first.Token() {
		t.Errorf("%v; the second token is %d, after %d", first.Context().Err(), second.Token(), first.Token())
	}
	rdb := redis.NewClient(&redis.Options{Addr: behind.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	kit.OK(t, fencing.SaveInRedis(background, rdb, second.Token(), "order", "second"))
	kit.WantError(t, fencing.SaveInRedis(background, rdb, first.Token(), "order", "first"), fencing.ErrStale)
	kit.Unlock(t, first)
	kit.Unlock(t, second)
}

// Who held the lock before writes too late, and is refused by the resource.
func TestFencedResource(t *testing.T) {
	t.Parallel()
	s, p, rdb := started(t)
	c := p.Client(t)
	var tokens []int64
	for _, body := range []string{"first", "second"} {
		kit.OK(t, fencing.Under(background, c, "orders:42", func(ctx context.Context, token int64) error {
			tokens = append(tokens, token)
			return fencing.SaveInRedis(ctx, rdb, token, "order", body)
		}))
	}
	kit.WantError(t, fencing.SaveInRedis(background, rdb, tokens[0], "order", "late"), fencing.ErrStale)
	if got := s.Cli(t, "HGET", "order", "body"); got != "second" {
		t.Errorf("the order says %q", got)
	}
}
