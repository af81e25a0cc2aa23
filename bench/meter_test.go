package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSpent(t *testing.T) {
	f := figures{Completed: 4}.spent(reading{cpu: time.Second, executed: 100, mallocs: 1000}, reading{cpu: time.Second + 10*time.Microsecond, executed: 130, mallocs: 1002})
	if f.RedisMicros != 2.5 || f.Executed != 7.5 || f.Allocs != 0.5 {
		t.Errorf("%+v", f)
	}
	if f := (figures{}).spent(reading{}, reading{cpu: time.Second}); f.RedisMicros != 0 {
		t.Errorf("nothing was done, and it cost %v", f.RedisMicros)
	}
}

// The meter sees what a server executes and nothing of its own; a monitor sees what
// was sent.
func TestMeterAndMonitor(t *testing.T) {
	server := redistest.Start(t)
	ctx := t.Context()
	m := newMeter(server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := errors.Join(m.close(), rdb.Close()); err != nil {
			t.Error(err)
		}
	}()
	script := redis.NewScript(bareTake)
	if err := script.Load(ctx, rdb).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.before(ctx); err != nil { // connects
		t.Fatal(err)
	}
	watch, err := startMonitor(ctx, server.Addr(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.before(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 1000
	for range calls {
		if err := script.EvalSha(ctx, rdb, []string{"x"}, "owner", 1000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := m.after(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := figures{Completed: calls}.spent(before, after)
	if math.Abs(f.Executed-3) > 0.01 || f.RedisMicros <= 0 || f.Allocs <= 0 { // EVALSHA, HSET, PEXPIRE
		t.Errorf("%+v", f)
	}
	if sent, err := watch.finish(ctx, m); err != nil || sent != calls {
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
