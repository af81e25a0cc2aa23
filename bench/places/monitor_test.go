package places

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What is spent is what a server executes, and nothing of the question for it; a monitor sees what
// was sent.
func TestSpentAndMonitor(t *testing.T) {
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
	watch, err := StartMonitor(ctx, server.Addrs[0], time.Minute)
	if err != nil {
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
	if perCall := float64(spent.Executed) / calls; math.Abs(perCall-3) > 0.01 || spent.Scripts != calls || spent.CPU <= 0 { // EVALSHA, HSET, PEXPIRE
		t.Errorf("%+v", spent)
	}
	if sent, err := watch.Finish(ctx, server.Nodes[0]); err != nil || sent != calls {
		t.Errorf("%d commands sent, %v", sent, err)
	}
}

func TestCalledByScript(t *testing.T) {
	for line, want := range map[string]bool{
		`+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`:            false,
		`+1339518083.107412 [0 lua] "set" "x" "7"`:                     true,
		`+1339518083.107412 [0 127.0.0.1:60866] "set" "x" "[0 lua] y"`: false,
	} {
		if got := calledByScript(line); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
