package driverkit

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// What is due is assigned: when it is time, when the loop is woken, and not after its end.
func TestRunAssigner(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		wake := make(chan struct{}, 1)
		time.AfterFunc(time.Second, func() { Notify(wake) })
		var looks []time.Duration
		var assigned []int
		RunAssigner(ctx, wake, func() (due []int, pause time.Duration) {
			looks = append(looks, time.Since(start))
			if len(looks) == 3 {
				due = []int{1, 2}
			}
			return due, 3 * time.Second
		}, func(due []int) { assigned = append(assigned, due...) })
		want := []time.Duration{0, time.Second, 4 * time.Second, 4 * time.Second, 7 * time.Second}
		if !slices.Equal(looks[:5], want) || !slices.Equal(assigned, []int{1, 2}) || time.Since(start) != time.Hour {
			t.Errorf("looked at %v, assigned %v, ended after %v", looks[:5], assigned, time.Since(start))
		}
	})
}

// The loop ends with its context, even if there is always something due.
func TestRunAssignerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	RunAssigner(ctx, nil, func() ([]int, time.Duration) { return []int{1}, 0 }, func([]int) {
		if n++; n == 3 {
			cancel()
		}
	})
	if n != 3 {
		t.Errorf("assigned %d times", n)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: firstPause, 1: 2 * firstPause, 4: 16 * firstPause, 5: lastPause, 10: lastPause, 1000: lastPause,
	} {
		if got := Backoff(failures, 1); got != want {
			t.Errorf("after %d failures %v", failures, got)
		}
		if got := Backoff(failures, Jitter()); got > want || got < want/2 {
			t.Errorf("after %d failures %v, with jitter", failures, got)
		}
	}
}

// Several notifications are one.
func TestNotify(t *testing.T) {
	wake := make(chan struct{}, 1)
	Notify(wake)
	Notify(wake)
	if len(wake) != 1 {
		t.Errorf("%d notifications", len(wake))
	}
}
