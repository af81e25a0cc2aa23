package await_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestHearsOfRelease gives each kind back once somebody listens, on a server and on a cluster. Whoever waits
// does not look again by itself for longer than the test allows: a key without an expiry is looked at every
// 3 s, of which a quarter of a second is left to be told, with ten tries for a loaded machine.
func TestHearsOfRelease(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T) redis.UniversalClient{
		"standalone": func(t *testing.T) redis.UniversalClient {
			t.Helper()
			return redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
		},
		"cluster": func(t *testing.T) redis.UniversalClient {
			t.Helper()
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t, 3, 0).Addrs()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			client, err := holdfast.New(goredisdriver.New(rdb))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = client.Close(), rdb.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			hold := func(l holdfast.Locker) func() (func() error, error) {
				return func() (func() error, error) {
					hold, err := l.Lock(ctx)
					if err != nil {
						return nil, err
					}
					return hold.Unlock, nil
				}
			}
			permits := client.NewPermitSemaphore("permits")
			if err := permits.SetPermits(ctx, 2); err != nil {
				t.Fatal(err)
			}
			latch := client.NewLatch("latch")
			for kind, take := range map[string]func() (func() error, error){
				"mutex": hold(client.NewMutex("mutex")), "read": hold(client.NewRWMutex("read").RLocker()), "write": hold(client.NewRWMutex("write")),
				"permits": hold(permits), "latch": func() (func() error, error) {
					_, err := latch.TrySetCount(ctx, 1)
					return latch.CountDown, err
				},
			} {
				t.Run(kind, func(t *testing.T) { testHears(ctx, t, rdb, kind, take) })
			}
		})
	}
}

func testHears(ctx context.Context, t *testing.T, rdb redis.UniversalClient, name string, take func() (func() error, error)) {
	t.Helper()
	var took time.Duration
	for range 10 {
		release, err := take()
		if err != nil {
			t.Fatal(err)
		}
		looks := make(chan struct{}, 100)
		cfg := await.Config{Redis: rdb, Driver: goredisdriver.New(rdb), Name: name, Seen: func(survey.Lock, bool) { looks <- struct{}{} }}
		if name == "latch" {
			cfg.Kind = survey.Latch
		}
		done := make(chan error, 1)
		go func() { done <- await.Free(ctx, cfg) }()
		<-looks // before it listens
		<-looks // since it listens
		began := time.Now()
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took = time.Since(began); took < 250*time.Millisecond {
			return
		}
	}
	t.Errorf("it took %v, ten times", took)
}

// TestEnds is every other end of waiting.
func TestEnds(t *testing.T) {
	t.Parallel()
	const owner = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cfg := func(name string) await.Config {
		return await.Config{Redis: rdb, Driver: goredisdriver.New(rdb), Name: name}
	}
	for _, args := range [][]any{
		{"HSET", "held", owner, 1}, {"HSET", "expires", owner, 1}, {"PEXPIRE", "expires", 200}, {"SET", "number", 3}, {"SET", "zero", 0}, {"SET", "text", "x"},
	} {
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if err := await.Free(short, cfg("held")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("held: %v", err)
	}
	for name, c := range map[string]struct {
		name string
		kind survey.Kind
		want error
	}{
		"nothing": {"nothing", "", nil}, "expires": {"expires", "", nil}, "number": {"number", "", await.ErrUnclear}, "text": {"text", "", survey.ErrOtherKind},
		"permits, none held": {"number", survey.Permits, nil}, "latch at zero": {"zero", survey.Latch, nil}, "latch that is a mutex": {"held", survey.Latch, survey.ErrOtherKind},
	} {
		config := cfg(c.name)
		config.Kind = c.kind
		if err := await.Free(ctx, config); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, kind := range map[string]survey.Kind{"held": "", "number": survey.Latch} {
		config := cfg(name)
		config.Once, config.Kind = true, kind
		if err := await.Free(ctx, config); !errors.Is(err, await.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
