package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestSpent(t *testing.T) {
	f := figures{Completed: 4}.spent(spending{nodes: []nodeSpending{{cpu: 4 * time.Microsecond, executed: 20}, {cpu: 6 * time.Microsecond, executed: 10}}}, 2)
	if f.RedisMicros != 2.5 || f.Executed != 7.5 || f.Allocs != 0.5 {
		t.Errorf("%+v", f)
	}
	if f := (figures{}).spent(spending{nodes: []nodeSpending{{cpu: time.Second}}}, 1); f.RedisMicros != 0 {
		t.Errorf("nothing was done, and it cost %v", f.RedisMicros)
	}
}

func TestForEach(t *testing.T) {
	var calls [100]atomic.Int32
	err := forEach(t.Context(), 10, len(calls), func(i int) error {
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
	if err := forEach(t.Context(), 0, 1000, func(i int) error {
		if i == 500 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := forEach(ended, 0, 10, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
