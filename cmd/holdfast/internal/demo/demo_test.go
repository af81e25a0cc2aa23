package demo

import (
	"testing"
	"time"
)

// TestCounts shows that the counts by which the stays are judged can fail.
func TestCounts(t *testing.T) {
	t.Parallel()
	at := func(actor, from, to int) span {
		zero := time.Unix(0, 0)
		return span{actor: actor, start: zero.Add(time.Duration(from)), end: zero.Add(time.Duration(to))}
	}
	for _, c := range []struct {
		spans                []span
		pairs, clashes, most int // pairs: of anybody; clashes: of actor 0 with anybody
	}{
		{nil, 0, 0, 0},
		{[]span{at(0, 0, 1), at(1, 1, 2), at(0, 5, 6)}, 0, 0, 1},
		{[]span{at(0, 5, 6), at(1, 0, 1), at(0, 1, 2)}, 0, 0, 1},
		{[]span{at(1, 0, 2), at(2, 1, 3)}, 1, 0, 2},
		{[]span{at(0, 0, 2), at(2, 1, 3)}, 1, 1, 2},
		{[]span{at(2, 0, 2), at(0, 1, 3), at(3, 1, 2)}, 3, 2, 3},
		{[]span{at(1, 1, 3), at(0, 0, 9), at(2, 4, 5), at(3, 9, 10)}, 2, 2, 2},
	} {
		if got := clashes(c.spans, everybody); got != c.pairs {
			t.Errorf("%v: %d pairs overlap, want %d", c.spans, got, c.pairs)
		}
		if got := clashes(c.spans, func(actor int) bool { return actor == 0 }); got != c.clashes {
			t.Errorf("%v: %d clashes, want %d", c.spans, got, c.clashes)
		}
		if got := most(c.spans); got != c.most {
			t.Errorf("%v: at most %d, want %d", c.spans, got, c.most)
		}
	}
}

// TestStore has the store of the demo check.
func TestStore(t *testing.T) {
	t.Parallel()
	r := &store{checks: true}
	for _, c := range []struct {
		token    int64
		rejected bool
	}{{5, false}, {5, false}, {4, true}, {6, false}, {5, true}} {
		if err := r.write(c.token, "row"); (err != nil) != c.rejected {
			t.Errorf("token %d: %v", c.token, err)
		}
	}
}
