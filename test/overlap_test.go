package test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// span is the time of one hold, by the clock of the machine.
type span struct {
	who      int // which process or client held it
	shared   bool
	from, to int64 // ns
}

// contender makes the lock that the i-th of several goroutines contends with. It
// reports whether holds of it may overlap among themselves.
func (k *kind) contender(c *holdfast.Client, name string, i int) (l anyLock, shared bool) {
	switch {
	case k.readers == nil:
		return k.lock(c, name), false
	case i%3 == 0:
		return k.exclusive(c, name), false
	default:
		return k.readers(c, name), true
	}
}

// exclusive makes a lock that is held by one alone.
func (k *kind) exclusive(c *holdfast.Client, name string) anyLock {
	if k.shared() {
		return k.against(c, name)
	}
	return k.lock(c, name)
}

// checkSpans fails if a hold overlaps one that it must not overlap.
func checkSpans(t *testing.T, k *kind, spans []span) {
	t.Helper()
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	var alone, any span // those that ended last
	together := 0
	for _, s := range spans {
		switch {
		case s.from < alone.to:
			t.Errorf("%+v began before %+v ended", s, alone)
		case !s.shared && s.from < any.to:
			t.Errorf("%+v began before %+v ended", s, any)
		case s.from < any.to:
			together++
		}
		if s.to > any.to {
			any = s
		}
		if !s.shared && s.to > alone.to {
			alone = s
		}
		if t.Failed() {
			return
		}
	}
	if k.readers != nil && together == 0 {
		t.Error("those who may share the lock never did")
	}
}

const contenderVariable = "HOLDFAST_TEST_CONTENDER"

func contend() int { return 0 }
