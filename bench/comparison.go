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
	if w.Shared {
		return contended(entries, w)
	}
	withRedisson := find(entries, redissonName, w) != nil
	t := &table{}
	t.add(heads(w, withRedisson)...)
	for _, e := range entries {
		t.add(slices.Concat([]string{e.contender.short(), rate(e)}, times(e), costs(e), ratiosOf(entries, e).cells(withRedisson))...)
	}
	return []*table{t}
}

func heads(w workload, withRedisson bool) []string {
	all := []string{
		w.Title, columnRate, columnP50, columnP99, "max",
		columnRedis, "sent", columnRun, "allocs", "×peer", "×limit",
	}
	if withRedisson {
		all = append(all, "×Java")
	}
	return all
}

// times are medians over the rounds.
func times(e *entry) []string {
	return []string{brief(over(e.rounds, p50).Median), brief(over(e.rounds, p99).Median), brief(over(e.rounds, longest).Median)}
}

// costs are medians over the rounds, but for the commands that are sent.
func costs(e *entry) []string {
	return []string{
		short(over(e.rounds, redisMicros).Median), decimal(e.sent, 1),
		decimal(over(e.rounds, executedPerPair).Median, 1), short(over(e.rounds, allocs).Median),
	}
}

func (r ratios) cells(withRedisson bool) []string {
	all := []string{hundredths(r.peer.Median), hundredths(r.limit.Median)}
	if withRedisson {
		all = append(all, hundredths(r.redisson.Median))
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
func rate(e *entry) string {
	if n := total(e.rounds, func(f figures) int { return f.Overlaps }); n > 0 {
		return fmt.Sprintf("OVERLAPPED %d times", n)
	}
	if i := slices.IndexFunc(e.rounds, func(f figures) bool { return f.StoodStill || f.Stuck > 0 }); i >= 0 {
		return "stood still after " + grouped(e.rounds[i].Pairs)
	}
	return rangeOf(over(e.rounds, perSecond), whole)
}

// contended are the tables of a workload on one lock: what the goroutines get, and how
// the lock changes hands.
func contended(entries []*entry, w workload) []*table {
	withRedisson := find(entries, redissonName, w) != nil
	t := &table{}
	head := []string{w.Title, columnRate, "wait p50", columnP99, "max", "goroutines", columnRedis, columnRun, "×best"}
	if withRedisson {
		head = append(head, "×Java")
	}
	t.add(head...)
	for _, e := range entries {
		cells := []string{
			e.contender.short(), rate(e),
			medianTime(e, func(f figures) time.Duration { return f.WaitP50 }),
			medianTime(e, func(f figures) time.Duration { return f.WaitP99 }),
			medianTime(e, func(f figures) time.Duration { return f.WaitMax }),
			fewestMost(e, func(f figures) (int, int) { return f.Fewest, f.Most }),
			short(over(e.rounds, redisMicros).Median), decimal(over(e.rounds, executedPerPair).Median, 1),
		}
		r := ratiosOf(entries, e)
		cells = append(cells, hundredths(r.best.Median))
		if withRedisson {
			cells = append(cells, hundredths(r.redisson.Median))
		}
		t.add(cells...)
	}
	if !w.turns() {
		return []*table{t}
	}
	return []*table{t, handOvers(entries, w)}
}

// handOvers is the table of how the lock changes hands.
func handOvers(entries []*entry, w workload) *table {
	t := &table{}
	head := []string{w.Title + ": hand-overs", "a second", "mean", columnP50, columnP99, "free"}
	switch {
	case w.Alternate:
		head = append(head, "scripts", "ping", "trips p50", columnP99)
	case w.Processes > 0:
		head = append(head, "scripts", "processes")
	}
	t.add(head...)
	for _, e := range entries {
		cells := []string{
			e.contender.short(),
			whole(over(e.rounds, func(f figures) float64 { return f.handOversPerSecond() }).Median),
			medianTime(e, func(f figures) time.Duration { return f.HandOverMean }),
			medianTime(e, func(f figures) time.Duration { return f.HandOverP50 }),
			medianTime(e, func(f figures) time.Duration { return f.HandOverP99 }),
			medianTime(e, func(f figures) time.Duration { return f.LongestFree }),
		}
		if w.Processes > 0 {
			cells = append(cells, decimal(over(e.rounds, scriptsPerHandOver).Median, 1))
		}
		switch {
		case w.Alternate:
			cells = append(cells, medianTime(e, func(f figures) time.Duration { return f.RoundTrip }),
				hundredths(over(e.rounds, handOverMedian.pick()).Median), hundredths(over(e.rounds, handOverTail.pick()).Median))
		case w.Processes > 0:
			cells = append(cells, fewestMost(e, func(f figures) (int, int) { return f.ProcessFewest, f.ProcessMost }))
		}
		t.add(cells...)
	}
	return t
}

// medianTime is the median of a time over the rounds.
func medianTime(e *entry, pick func(figures) time.Duration) string {
	return brief(over(e.rounds, pick).Median)
}

// fewestMost are the fewest and the most pairs of somebody, medians over the rounds.
func fewestMost(e *entry, pick func(figures) (fewest, most int)) string {
	few := over(e.rounds, func(f figures) int { fewest, _ := pick(f); return fewest })
	many := over(e.rounds, func(f figures) int { _, most := pick(f); return most })
	return fmt.Sprintf("%s : %s", grouped(few.Median), grouped(many.Median))
}

func scriptsPerHandOver(f figures) float64 { return f.Scripts }
