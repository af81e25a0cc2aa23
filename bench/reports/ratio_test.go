package reports

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// inRounds makes an entry with these throughputs, one a round.
func inRounds(c contenders.Contender, w workloads.Workload, perSecond ...float64) *workloads.Entry {
	e := &workloads.Entry{Contender: c, Workload: w}
	for _, f := range perSecond {
		e.Rounds = append(e.Rounds, workloads.Figures{PerSecond: f, P50: time.Duration(1e9 / max(f, 1))})
	}
	return e
}

// A ratio is taken round by round, so that a machine that slows down is not in it.
func TestRatio(t *testing.T) {
	w := workloads.All()[0]
	a, b := inRounds(contenders.Contender{}, w, 100, 20, 30, 0), inRounds(contenders.Contender{}, w, 50, 10, 10, 5)
	if got, want := ratio(a, b, perSecond), (workloads.Spread[float64]{Median: 2, Low: 2, High: 3}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ratio(a, inRounds(contenders.Contender{}, w), perSecond); got != (workloads.Spread[float64]{}) {
		t.Errorf("without rounds: %v", got)
	}
}

func TestRatiosOf(t *testing.T) {
	w, other := workloads.All()[1], workloads.All()[2]
	ours := inRounds(contenders.Contender{Name: "holdfast", Client: contenders.GoRedis, Ours: true}, w, 30)
	slow := inRounds(contenders.Contender{Name: "slow", Client: contenders.GoRedis}, w, 10)
	fast := inRounds(contenders.Contender{Name: "fast", Client: contenders.GoRedis}, w, 20)
	bare := inRounds(contenders.Contender{Name: contenders.BareName, Client: contenders.GoRedis, Bare: true}, w, 60)
	java := inRounds(contenders.Contender{Name: "Redisson", Client: "JVM"}, w, 3)
	entries := []*workloads.Entry{
		ours, slow, fast, bare, java,
		inRounds(contenders.Contender{Name: "elsewhere", Client: contenders.RueidisLib}, w, 1000),
		inRounds(contenders.Contender{Name: "other", Client: contenders.GoRedis}, other, 1000),
		inRounds(contenders.Contender{Name: contenders.BareName, Client: contenders.GoRedis, Bare: true}, other, 1000),
	}
	one := func(f float64) workloads.Spread[float64] {
		return workloads.Spread[float64]{Median: f, Low: f, High: f}
	}
	if got, want := ratiosOf(entries, ours), (ratios{peer: one(1.5), best: one(0.03), limit: one(0.5), redisson: one(10)}); got != want {
		t.Errorf("ours: %v, want %v", got, want)
	}
	if got, want := ratiosOf(entries, fast), (ratios{limit: one(20. / 60)}); got != want {
		t.Errorf("a peer: %v, want %v", got, want)
	}
	if got := ratiosOf(entries, bare); got != (ratios{}) {
		t.Errorf("the limit itself: %v", got)
	}
	if got := ratiosOf([]*workloads.Entry{ours}, ours); got != (ratios{}) {
		t.Errorf("alone: %v", got)
	}
}
