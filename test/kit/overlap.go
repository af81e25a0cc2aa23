package kit

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Span is the time of one hold, by the clock of the machine.
type Span struct {
	Who      int // which process or client held it
	Shared   bool
	From, To int64 // ns
}

// Contender makes the lock that the i-th of several goroutines contends with. It
// reports whether holds of it may overlap among themselves.
func (k *Kind) Contender(c *holdfast.Client, name string, i int) (l AnyLock, shared bool) {
	switch {
	case k.Readers == nil:
		return k.Lock(c, name), false
	case i%3 == 0:
		return k.Against(c, name), false
	default:
		return k.Readers(c, name), true
	}
}

// CheckSpans fails if a hold overlaps one that it must not overlap.
func CheckSpans(t *testing.T, k *Kind, spans []Span) {
	t.Helper()
	slices.SortFunc(spans, func(a, b Span) int { return int(a.From - b.From) })
	var alone, last Span // those that ended last
	together, wrong := 0, 0
	for _, s := range spans {
		switch {
		case s.From < alone.To:
			wrong++
			t.Errorf("%+v began before %+v ended", s, alone)
		case !s.Shared && s.From < last.To:
			wrong++
			t.Errorf("%+v began before %+v ended", s, last)
		case s.From < last.To:
			together++
		}
		if s.To > last.To {
			last = s
		}
		if !s.Shared && s.To > alone.To {
			alone = s
		}
		if wrong == 3 {
			return // it is clear by now
		}
	}
	if k.Readers != nil && together == 0 {
		t.Error("those who may share the lock never did")
	}
}

// TakeTurns has some contend for as many locks, which are one, so often each: no two are inside at once.
func TakeTurns(t *testing.T, turns int, stay time.Duration, locks ...holdfast.Locker) {
	t.Helper()
	var inside atomic.Int32
	var all sync.WaitGroup
	for _, l := range locks {
		all.Go(func() {
			for range turns {
				h, err := l.Lock(background)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) > 1 {
					t.Error("two are inside")
				}
				time.Sleep(stay)
				inside.Add(-1)
				Unlock(t, h)
			}
		})
	}
	all.Wait()
}
