package main

import (
	"fmt"
	"slices"
	"time"
)

// Heads of columns.
const (
	columnRate  = "pairs/s (min–max)"
	columnP50   = "p50"
	columnP99   = "p99"
	columnRedis = "Redis µs"
	columnRun   = "run"
)

// comparison is what there is to show of one workload, in tables.
func comparison(entries []*entry, w workload) []*table {
	entries = under(entries, w)
	if w.shared {
		return contended(entries, w)
	}
	withRedisson := find(entries, redissonName, w) != nil
	t := &table{}
	t.add(heads(w, withRedisson)...)
	for _, e := range entries {
		t.add(slices.Concat([]string{e.contender.short(), e.rate()}, e.times(), e.costs(), ratiosOf(entries, e).cells(withRedisson))...)
	}
	return []*table{t}
}

func heads(w workload, withRedisson bool) []string {
	all := []string{
		w.title, columnRate, columnP50, columnP99, "max",
		columnRedis, "sent", columnRun, "allocs", "×peer", "×limit",
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

// What is picked of the figures of a round.
func p50(f figures) time.Duration       { return f.P50 }
func p99(f figures) time.Duration       { return f.P99 }
func longest(f figures) time.Duration   { return f.Max }
func p50Nanos(f figures) float64        { return float64(f.P50) }
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
