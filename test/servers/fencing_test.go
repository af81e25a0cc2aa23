package servers

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/fencing"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who held the lock before writes too late, and is refused by the resource.
func TestFencedResource(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := testclient.New(goredisdriver.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	save := func(body string) func(context.Context, int64) error {
		return func(ctx context.Context, token int64) error {
			return fencing.SaveInRedis(ctx, rdb, token, "order", body)
		}
	}
	var stale int64
	err = fencing.Under(background, client, "orders:42", func(ctx context.Context, token int64) error {
		stale = token
		return save("first")(ctx, token)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := fencing.Under(background, client, "orders:42", save("second")); err != nil {
		t.Fatal(err)
	}
	kit.WantError(t, save("late")(background, stale), fencing.ErrStale)
	if got := s.Cli(t, "HGET", "order", "body"); got != "second" {
		t.Errorf("the order says %q", got)
	}
}
