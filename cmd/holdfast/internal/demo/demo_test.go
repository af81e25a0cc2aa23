package demo

import (
	"slices"
	"testing"
	"time"
)

// TestOverlaps shows that the count of overlaps is one that can fail.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	at := func(from, to int) span {
		zero := time.Unix(0, 0)
		return span{start: zero.Add(time.Duration(from)), end: zero.Add(time.Duration(to))}
	}
	for _, c := range []struct {
		spans []span
		want  int
	}{
		{nil, 0},
		{[]span{at(0, 1), at(1, 2), at(5, 6)}, 0},
		{[]span{at(5, 6), at(0, 1), at(1, 2)}, 0},
		{[]span{at(0, 2), at(1, 3)}, 1},
		{[]span{at(1, 3), at(0, 9), at(4, 5), at(9, 10)}, 2},
	} {
		if got := overlaps(c.spans); got != c.want {
			t.Errorf("%v: %d, want %d", c.spans, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	got := wrap("one two  three averylongword x", "* ", 9)
	if want := []string{"* one two", "  three", "  averylongword", "  x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
