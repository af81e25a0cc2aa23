package places

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What is spent is what a server runs, and nothing of the question for it.
func TestSpent(t *testing.T) {
	ctx, server := t.Context(), Open(t, "the server", redistest.Start(t).Addr())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addrs[0]})
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	script := redis.NewScript("redis.call('HSET', KEYS[1], ARGV[1], 1) return redis.call('PEXPIRE', KEYS[1], ARGV[2])")
	if err := script.Load(ctx, rdb).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Spent(ctx); err != nil { // connects
		t.Fatal(err)
	}
	before, err := server.Spent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 1000
	for range calls {
		if err := script.EvalSha(ctx, rdb, []string{"x"}, "owner", 1000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := server.Spent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	spent := after.Since(before).Total()
	if spent.Scripts != calls || spent.CPU <= 0 {
		t.Errorf("%+v", spent)
	}
}
