package protocol

import (
	"math"
	"strconv"
	"testing"
	"time"
)

// TestSum: what others have written cannot overflow.
func TestSum(t *testing.T) {
	t.Parallel()
	const most, least = math.MaxInt64, math.MinInt64
	for _, c := range [][3]int64{
		{1, 2, 3},
		{-1, 2, 1},
		{0, 0, 0},
		{most, -1, most - 1},
		{least, 1, least + 1},
		{most, least, -1},
		{most, 1, most},
		{1, most, most},
		{most, most, most},
		{least, -1, least},
		{-1, least, least},
		{least, least, least},
	} {
		if got := Sum(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestSinceTheEpoch: a clock that is far ahead makes no negative age.
func TestSinceTheEpoch(t *testing.T) {
	t.Parallel()
	for now, want := range map[int64]time.Duration{1_000: 999 * time.Millisecond, 1: 0, 0: 0, math.MaxInt64: Milliseconds(mostMillis)} {
		if got := since(now, strconv.Itoa(1)); got != want {
			t.Errorf("at %d: %v, want %v", now, got, want)
		}
	}
}
