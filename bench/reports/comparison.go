package reports

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// Heads of columns.
const (
	columnRate  = "pairs/s (min–max)"
	columnP50   = "p50"
	columnP99   = "p99"
	columnRedis = "Redis µs"
	columnRun   = "run"
)

// tablesOf is what there is to show of one workload, in tables.
func tablesOf(entries []*workloads.Entry, w workloads.Workload) []*table {
	entries = under(entries, w)
	if w.Shared {
		return contended(entries, w)
	}
	withRedisson := find(entries, contenders.RedissonName, w) != nil
	t := &table{}
	t.add(heads(w, withRedisson)...)
	for _, e := range entries {
		t.add(slices.Concat([]string{e.Contender.Short(), rate(e)}, times(e), costs(e), ratiosOf(entries, e).cells(withRedisson))...)
	}
	return []*table{t}
}

func heads(w workloads.Workload, withRedisson bool) []string {
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
func times(e *workloads.Entry) []string {
	return []string{brief(workloads.Over(e.Rounds, p50).Median), brief(workloads.Over(e.Rounds, p99).Median), brief(workloads.Over(e.Rounds, longest).Median)}
}

// costs are medians over the rounds, but for the commands that are sent.
func costs(e *workloads.Entry) []string {
	return []string{
		short(workloads.Over(e.Rounds, redisMicros).Median), decimal(e.Sent, 1),
		decimal(workloads.Over(e.Rounds, executedPerPair).Median, 1), short(workloads.Over(e.Rounds, allocs).Median),
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
func p50(f workloads.Figures) time.Duration       { return f.P50 }
func p99(f workloads.Figures) time.Duration       { return f.P99 }
func longest(f workloads.Figures) time.Duration   { return f.Max }
func p50Nanos(f workloads.Figures) float64        { return float64(f.P50) }
func perSecond(f workloads.Figures) float64       { return f.PerSecond }
func redisMicros(f workloads.Figures) float64     { return f.RedisMicros }
func executedPerPair(f workloads.Figures) float64 { return f.Executed }
func allocs(f workloads.Figures) float64          { return f.Allocs }

// under returns the entries of a workload.
func under(entries []*workloads.Entry, w workloads.Workload) (some []*workloads.Entry) {
	for _, e := range entries {
		if e.Workload == w {
			some = append(some, e)
		}
	}
	return some
}

// find returns the entry of a contender by its full name, or nil.
func find(entries []*workloads.Entry, full string, w workloads.Workload) *workloads.Entry {
	for _, e := range entries {
		if e.Contender.Full() == full && e.Workload == w {
			return e
		}
	}
	return nil
}

// rate is the throughput, or what kept it from being one.
func rate(e *workloads.Entry) string {
	if n := workloads.Total(e.Rounds, func(f workloads.Figures) int { return f.Overlaps }); n > 0 {
		return fmt.Sprintf("OVERLAPPED %d times", n)
	}
	if i := slices.IndexFunc(e.Rounds, func(f workloads.Figures) bool { return f.StoodStill || f.Stuck > 0 }); i >= 0 {
		return "stood still after " + grouped(e.Rounds[i].Pairs)
	}
	return rangeOf(workloads.Over(e.Rounds, perSecond), whole)
}

// contended are the tables of a workload on one lock: what the goroutines get, and how
// the lock changes hands.
func contended(entries []*workloads.Entry, w workloads.Workload) []*table {
	withRedisson := find(entries, contenders.RedissonName, w) != nil
	t := &table{}
	head := []string{w.Title, columnRate, "wait p50", columnP99, "max", "goroutines", columnRedis, columnRun, "×best"}
	if withRedisson {
		head = append(head, "×Java")
	}
	t.add(head...)
	for _, e := range entries {
		cells := []string{
			e.Contender.Short(), rate(e),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.WaitP50 }),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.WaitP99 }),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.WaitMax }),
			fewestMost(e, func(f workloads.Figures) (int, int) { return f.Fewest, f.Most }),
			short(workloads.Over(e.Rounds, redisMicros).Median), decimal(workloads.Over(e.Rounds, executedPerPair).Median, 1),
		}
		r := ratiosOf(entries, e)
		cells = append(cells, hundredths(r.best.Median))
		if withRedisson {
			cells = append(cells, hundredths(r.redisson.Median))
		}
		t.add(cells...)
	}
	if !w.Turns() {
		return []*table{t}
	}
	return []*table{t, handOvers(entries, w)}
}

// handOvers is the table of how the lock changes hands.
func handOvers(entries []*workloads.Entry, w workloads.Workload) *table {
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
			e.Contender.Short(),
			whole(workloads.Over(e.Rounds, func(f workloads.Figures) float64 { return f.HandOversPerSecond() }).Median),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.HandOverMean }),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.HandOverP50 }),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.HandOverP99 }),
			medianTime(e, func(f workloads.Figures) time.Duration { return f.LongestFree }),
		}
		if w.Processes > 0 {
			cells = append(cells, decimal(workloads.Over(e.Rounds, scriptsPerHandOver).Median, 1))
		}
		switch {
		case w.Alternate:
			cells = append(cells, medianTime(e, func(f workloads.Figures) time.Duration { return f.RoundTrip }),
				hundredths(workloads.Over(e.Rounds, handOverMedian.pick()).Median), hundredths(workloads.Over(e.Rounds, handOverTail.pick()).Median))
		case w.Processes > 0:
			cells = append(cells, fewestMost(e, func(f workloads.Figures) (int, int) { return f.ProcessFewest, f.ProcessMost }))
		}
		t.add(cells...)
	}
	return t
}

// medianTime is the median of a time over the rounds.
func medianTime(e *workloads.Entry, pick func(workloads.Figures) time.Duration) string {
	return brief(workloads.Over(e.Rounds, pick).Median)
}

// fewestMost are the fewest and the most pairs of somebody, medians over the rounds.
func fewestMost(e *workloads.Entry, pick func(workloads.Figures) (fewest, most int)) string {
	few := workloads.Over(e.Rounds, func(f workloads.Figures) int { fewest, _ := pick(f); return fewest })
	many := workloads.Over(e.Rounds, func(f workloads.Figures) int { _, most := pick(f); return most })
	return fmt.Sprintf("%s : %s", grouped(few.Median), grouped(many.Median))
}

func scriptsPerHandOver(f workloads.Figures) float64 { return f.Scripts }
