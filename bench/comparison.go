package main

import (
	"fmt"
	"slices"
	"time"
)

// comparison is the table of one workload.
func comparison(entries []*entry, w workload) string {
	entries = under(entries, w)
	withRedisson := find(entries, redissonName, w) != nil
	t := &table{}
	t.add(heads(w, withRedisson)...)
	for _, e := range entries {
		t.add(slices.Concat([]string{e.contender.short(), e.rate()}, e.times(), e.costs(), ratiosOf(entries, e).cells(withRedisson))...)
	}
	return t.String()
}

func heads(w workload, withRedisson bool) []string {
	all := []string{
		w.title, "pairs/s (min–max)", "p50", "p99", "max",
		"Redis µs", "sent", "run", "allocs", "×peer", "×limit",
	}
	if withRedisson {
		all = append(all, "×Java")
	}
	return all
}

// times are medians over the rounds.
func (e *entry) times() []string {
	return []string{brief(over(e.rounds, p50).Median), brief(over(e.rounds, p99).Median), brief(over(e.rounds, longest).Median)}
}

// costs are medians over the rounds, but for the commands that are sent.
func (e *entry) costs() []string {
	return []string{
		short(over(e.rounds, redisMicros).Median), decimal(e.sent, 1),
		decimal(over(e.rounds, executedPerPair).Median, 1), short(over(e.rounds, allocs).Median),
	}
}

func (r ratios) cells(withRedisson bool) []string {
	all := []string{hundredths(r.Peer.Median), hundredths(r.Limit.Median)}
	if withRedisson {
		all = append(all, hundredths(r.Redisson.Median))
	}
	return all
}

// fairness is the table of a workload on one lock: how evenly the goroutines got
// their turns.
func fairness(entries []*entry, w workload) string {
	t := &table{}
	t.add(w.title+": pairs of one goroutine", "fewest (min–max)", "most (min–max)")
	for _, e := range under(entries, w) {
		t.add(e.contender.short(), rangeOf(over(e.rounds, fewest), whole), rangeOf(over(e.rounds, most), whole))
	}
	return t.String()
}

// What is picked of the figures of a round.
func p50(f figures) time.Duration       { return f.P50 }
func p99(f figures) time.Duration       { return f.P99 }
func longest(f figures) time.Duration   { return f.Max }
func p50Nanos(f figures) float64        { return float64(f.P50) }
func fewest(f figures) float64          { return float64(f.Fewest) }
func most(f figures) float64            { return float64(f.Most) }
func perSecond(f figures) float64       { return f.PerSecond }
func redisMicros(f figures) float64     { return f.RedisMicros }
func executedPerPair(f figures) float64 { return f.Executed }
func allocs(f figures) float64          { return f.Allocs }

// under returns the entries of a workload.
func under(entries []*entry, w workload) (some []*entry) {
	for _, e := range entries {
		if e.workload == w {
			some = append(some, e)
		}
	}
	return some
}

// find returns the entry of a contender by its full name, or nil.
func find(entries []*entry, full string, w workload) *entry {
	for _, e := range entries {
		if e.contender.full() == full && e.workload == w {
			return e
		}
	}
	return nil
}

// rate is the throughput, or what kept it from being one.
func (e *entry) rate() string {
	if n := total(e.rounds, func(f figures) int { return f.Overlaps }); n > 0 {
		return fmt.Sprintf("OVERLAPPED %d times", n)
	}
	if i := slices.IndexFunc(e.rounds, func(f figures) bool { return f.StoodStill || f.Stuck > 0 }); i >= 0 {
		return "stood still after " + grouped(e.rounds[i].Pairs)
	}
	return rangeOf(over(e.rounds, perSecond), whole)
}
