package survey

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestAway finds nothing out about a server that is not there, and says so.
func TestAway(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var refused *net.OpError
	if l, err := Read(ctx, rdb, "job"); !errors.As(err, &refused) {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := Scan(ctx, rdb, Options{}, func(Lock) error { return nil }); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// TestScanTellsOnce has SCAN return a key twice, on one page and on another.
func TestScanTellsOnce(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := rdb.HSet(ctx, "job", javaOwner, 1).Err(); err != nil {
		t.Fatal(err)
	}
	r, err := newReader(ctx, rdb, mostScanned)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	s := newScan(r, Options{}, func(Lock) error { found++; return nil })
	for range 2 {
		if err := s.emit(ctx, []string{"job", "job"}); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Errorf("told of %d times", found)
	}
}
