package contenders

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestUnderOneName checks what docs/coming-from.md says of a lock of another library and one of holdfast under one name.
func TestUnderOneName(t *testing.T) {
	t.Parallel()
	s := Setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 10}
	rdb := NewGoRedis(s)
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := holdfast.New(goredisdriver.New(rdb))
	ok(t, err)
	t.Cleanup(func() { ok(t, client.Close()) })
	const lease = time.Minute
	ctx := t.Context()
	refused := func(name string) {
		t.Helper()
		mu := client.NewMutex(name)
		_, locked := mu.Lock(ctx)
		_, tried := mu.TryLock(ctx)
		_, seen := mu.Inspect(ctx)
		_, forced := mu.ForceUnlock(ctx)
		for _, err := range []error{locked, tried, seen, forced} {
			var failed *holdfast.BackendError
			if !errors.Is(err, holdfast.ErrOtherKind) || !errors.As(err, &failed) || failed.MayHaveRun {
				t.Errorf("under a lock of theirs: %v", err)
			}
		}
	}
	sync, locker := redsync.New(redsyncpool.NewPool(rdb)), redislock.New(rdb)

	theirs := sync.NewMutex("redsync", redsync.WithExpiry(lease))
	ok(t, theirs.LockContext(ctx))
	refused("redsync")
	if was, err := theirs.UnlockContext(ctx); !was || err != nil {
		t.Errorf("redsync's Unlock: %v, %v", was, err)
	}
	hold, err := client.NewMutex("redsync").Lock(ctx)
	ok(t, err)
	var taken *redsync.ErrTaken
	if err := sync.NewMutex("redsync", redsync.WithTries(3)).LockContext(ctx); !errors.As(err, &taken) {
		t.Errorf("redsync, under a lock of ours: %v", err)
	}
	ok(t, hold.Unlock())

	held, err := locker.Obtain(ctx, "redislock", lease, nil)
	ok(t, err)
	refused("redislock")
	ok(t, held.Release(ctx))
	hold, err = client.NewMutex("redislock").Lock(ctx)
	ok(t, err)
	_, err = locker.Obtain(ctx, "redislock", lease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	if err == nil || errors.Is(err, redislock.ErrNotObtained) || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		t.Errorf("redislock, under a lock of ours: %v", err)
	}
	ok(t, hold.Unlock())

	others, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: s.Addrs}, KeyMajority: 1, NoLoopTracking: true,
	})
	ok(t, err)
	defer others.Close()
	_, release, err := others.TryWithContext(ctx, "rueidislock")
	ok(t, err)
	defer release()
	hold, err = client.NewMutex("rueidislock").TryLock(ctx)
	ok(t, err)
	ok(t, hold.Unlock())
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
