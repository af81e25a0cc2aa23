package binarysem

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// It is taken and freed, with a channel and without one.
func TestOneHasIt(t *testing.T) {
	var s Sem
	for _, waited := range []bool{false, true} {
		if waited {
			s.Chan()
		}
		if !s.TryTake() || s.TryTake() {
			t.Errorf("waited for: %v: one can take it, and no other", waited)
		}
		s.Free()
		if !s.TryTake() {
			t.Errorf("waited for: %v: it was freed, and cannot be taken", waited)
		}
		s.Free()
	}
}

// Nobody who takes it at once gets in between the one who frees it and the one who waits.
func TestThoseWhoWaitComeFirst(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var s Sem
		s.TryTake()
		var order []int
		for i := range 3 {
			go func() {
				s.Chan() <- struct{}{}
				order = append(order, i)
				time.Sleep(time.Second)
				s.Free()
			}()
			synctest.Wait()
		}
		s.Free()
		if s.TryTake() {
			t.Error("it was taken before one who waits")
		}
		time.Sleep(4 * time.Second)
		if !s.TryTake() {
			t.Fatal("all have freed it, and it cannot be taken")
		}
		if want := []int{0, 1, 2}; !slices.Equal(order, want) {
			t.Errorf("taken by %v, want %v", order, want)
		}
	})
}

// One who stops waiting leaves it to the others.
func TestStopWaiting(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var s Sem
		s.TryTake()
		select {
		case s.Chan() <- struct{}{}:
			t.Error("taken twice")
		case <-time.After(time.Second):
		}
		s.Free()
		if !s.TryTake() {
			t.Error("it is free, and cannot be taken")
		}
	})
}

// One at a time has it, whichever way it was taken.
func TestExclusion(t *testing.T) {
	for range 200 {
		var s Sem
		var all sync.WaitGroup
		n := 0 // the race detector sees to it
		for i := range 8 {
			all.Go(func() {
				for range 20 {
					if i%2 == 0 || !s.TryTake() {
						s.Chan() <- struct{}{}
					}
					n++
					s.Free()
				}
			})
		}
		all.Wait()
		if n != 160 || !s.TryTake() {
			t.Fatalf("had %d times, want 160, and then free", n)
		}
	}
}

// It costs nothing until somebody has to wait.
func TestNoAllocation(t *testing.T) {
	var s Sem
	if n := testing.AllocsPerRun(100, func() { s.TryTake(); s.TryTake(); s.Free() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
