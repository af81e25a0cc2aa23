package workloads

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/places"
)

func TestSpent(t *testing.T) {
	f := Figures{Completed: 4}.spent(places.Spending{Nodes: []places.NodeSpending{{CPU: 4 * time.Microsecond}, {CPU: 6 * time.Microsecond}}})
	if f.RedisMicros != 2.5 {
		t.Errorf("%+v", f)
	}
	if f := (Figures{}).spent(places.Spending{Nodes: []places.NodeSpending{{CPU: time.Second}}}); f.RedisMicros != 0 {
		t.Errorf("nothing was done, and it cost %v", f.RedisMicros)
	}
}

func TestForEach(t *testing.T) {
	var calls [100]atomic.Int32
	err := ForEach(t.Context(), 10, len(calls), func(i int) error {
		calls[i].Add(1)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for i := range calls {
		want := int32(1)
		if i < 10 {
			want = 0
		}
		if got := calls[i].Load(); got != want {
			t.Errorf("number %d: %d calls, want %d", i, got, want)
		}
	}
	broken := errors.New("broken")
	if err := ForEach(t.Context(), 0, 1000, func(i int) error {
		if i == 500 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ForEach(ended, 0, 10, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []int
		want Spread[int]
	}{
		{[]int{5, 1, 9}, Spread[int]{5, 1, 9}},
		{[]int{4, 3, 2, 1}, Spread[int]{2, 1, 4}}, // the lower one of the middle two
		{[]int{7}, Spread[int]{7, 7, 7}},
		{nil, Spread[int]{}},
	} {
		if got := SpreadOf(c.of); got != c.want {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}
