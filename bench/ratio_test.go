package main

import (
	"testing"
	"time"
)

// inRounds makes an entry with these throughputs, one a round.
func inRounds(c contender, w workload, perSecond ...float64) *entry {
	e := &entry{contender: c, workload: w}
	for _, f := range perSecond {
		e.rounds = append(e.rounds, figures{PerSecond: f, P50: time.Duration(1e9 / max(f, 1))})
	}
	return e
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []int
		want spread[int]
	}{
		{[]int{5, 1, 9}, spread[int]{5, 1, 9}},
		{[]int{4, 3, 2, 1}, spread[int]{2, 1, 4}}, // the lower one of the middle two
		{[]int{7}, spread[int]{7, 7, 7}},
		{nil, spread[int]{}},
	} {
		if got := spreadOf(c.of); got != c.want {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}

// A ratio is taken round by round, so that a machine that slows down is not in it.
func TestRatio(t *testing.T) {
	w := workloads()[0]
	a, b := inRounds(contender{}, w, 100, 20, 30, 0), inRounds(contender{}, w, 50, 10, 10, 5)
	if got, want := ratio(a, b, perSecond), (spread[float64]{2, 2, 3}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ratio(a, inRounds(contender{}, w), perSecond); got != (spread[float64]{}) {
		t.Errorf("without rounds: %v", got)
	}
}

func TestRatiosOf(t *testing.T) {
	w, other := workloads()[1], workloads()[2]
	ours := inRounds(contender{name: "holdfast", client: goRedis, ours: true}, w, 30)
	slow := inRounds(contender{name: "slow", client: goRedis}, w, 10)
	fast := inRounds(contender{name: "fast", client: goRedis}, w, 20)
	bare := inRounds(contender{name: bareName, client: goRedis, bare: true}, w, 60)
	java := inRounds(contender{name: "Redisson", client: "JVM"}, w, 3)
	entries := []*entry{
		ours, slow, fast, bare, java,
		inRounds(contender{name: "elsewhere", client: rueidisLib}, w, 1000),
		inRounds(contender{name: "other", client: goRedis}, other, 1000),
		inRounds(contender{name: bareName, client: goRedis, bare: true}, other, 1000),
	}
	one := func(f float64) spread[float64] { return spread[float64]{f, f, f} }
	if got, want := ratiosOf(entries, ours), (ratios{peer: one(1.5), best: one(0.03), limit: one(0.5), redisson: one(10)}); got != want {
		t.Errorf("ours: %v, want %v", got, want)
	}
	if got, want := ratiosOf(entries, fast), (ratios{limit: one(20. / 60)}); got != want {
		t.Errorf("a peer: %v, want %v", got, want)
	}
	if got := ratiosOf(entries, bare); got != (ratios{}) {
		t.Errorf("the limit itself: %v", got)
	}
	if got := ratiosOf([]*entry{ours}, ours); got != (ratios{}) {
		t.Errorf("alone: %v", got)
	}
}
