package survey

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

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
