package reports

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// A column is what a table says of each contender.
type column struct {
	head string
	cell func(*workloads.Entry) string
}

// Heads of columns that stand elsewhere, too.
const (
	columnP50 = "p50"
	columnP99 = "p99"
)

// tablesOf is what there is to show of one workload, in tables.
func tablesOf(entries []*workloads.Entry, w workloads.Workload) []*table {
	entries = under(entries, w)
	over := func(head string, pick func(ratios) workloads.Spread[float64]) column {
		return column{head, func(e *workloads.Entry) string { return hundredths(pick(ratiosOf(entries, e)).Median) }}
	}
	rates := column{"pairs/s (min–max)", rate}
	redis := number("Redis µs", redisMicros, short)
	if w.Alternate { // all waits are as long as the lock is held
		return []*table{filled(w.Title, entries, append([]column{rates}, handOvers(w)...))}
	}
	var columns []column
	if w.Shared {
		columns = []column{
			rates, times("wait p50", func(f workloads.Figures) time.Duration { return f.WaitP50 }),
			times(columnP99, func(f workloads.Figures) time.Duration { return f.WaitP99 }),
			times("max", func(f workloads.Figures) time.Duration { return f.WaitMax }),
			fewestMost("goroutines", func(f workloads.Figures) (int, int) { return f.Fewest, f.Most }),
			redis, over("×best", func(r ratios) workloads.Spread[float64] { return r.best }),
		}
	} else {
		columns = []column{
			rates, times(columnP50, func(f workloads.Figures) time.Duration { return f.P50 }),
			times(columnP99, func(f workloads.Figures) time.Duration { return f.P99 }),
			times("max", func(f workloads.Figures) time.Duration { return f.Max }),
			redis,
			over("×peer", func(r ratios) workloads.Spread[float64] { return r.peer }),
			over("×limit", func(r ratios) workloads.Spread[float64] { return r.limit }),
		}
	}
	if find(entries, contenders.RedissonName, w) != nil {
		columns = append(columns, over("×Java", func(r ratios) workloads.Spread[float64] { return r.redisson }))
	}
	all := []*table{filled(w.Title, entries, columns)}
	if w.Turns() {
		all = append(all, filled(w.Title, entries, handOvers(w)))
	}
	return all
}

// handOvers are the columns of how the lock changes hands.
func handOvers(w workloads.Workload) []column {
	columns := []column{
		times("hand-over p50", func(f workloads.Figures) time.Duration { return f.HandOverP50 }),
		times(columnP99, func(f workloads.Figures) time.Duration { return f.HandOverP99 }),
		times("free", func(f workloads.Figures) time.Duration { return f.LongestFree }),
	}
	if w.Processes > 0 {
		columns = append(columns, number("scripts", scriptsPerHandOver, tenths))
	}
	if w.Alternate {
		columns = append(columns, times("ping", func(f workloads.Figures) time.Duration { return f.RoundTrip }),
			number("trips p50", handOverMedian.pick(), hundredths), number(columnP99, handOverTail.pick(), hundredths))
	}
	return columns
}

// filled is a table with a row for each entry.
func filled(title string, entries []*workloads.Entry, columns []column) *table {
	t := &table{}
	row := func(first string, cell func(column) string) {
		cells := append(make([]string, 0, len(columns)+1), first)
		for _, c := range columns {
			cells = append(cells, cell(c))
		}
		t.add(cells...)
	}
	row(title, func(c column) string { return c.head })
	for _, e := range entries {
		row(e.Contender.Short(), func(c column) string { return c.cell(e) })
	}
	return t
}

// number is a column of the median of a figure over the rounds.
func number(head string, pick func(workloads.Figures) float64, write func(float64) string) column {
	return column{head, func(e *workloads.Entry) string { return write(workloads.Over(e.Rounds, pick).Median) }}
}

// times is a column of the median of a time over the rounds.
func times(head string, pick func(workloads.Figures) time.Duration) column {
	return column{head, func(e *workloads.Entry) string { return brief(workloads.Over(e.Rounds, pick).Median) }}
}

// fewestMost is a column of the fewest and the most pairs of somebody, medians over the rounds.
func fewestMost(head string, pick func(workloads.Figures) (fewest, most int)) column {
	return column{head, func(e *workloads.Entry) string {
		few := workloads.Over(e.Rounds, func(f workloads.Figures) int { fewest, _ := pick(f); return fewest })
		many := workloads.Over(e.Rounds, func(f workloads.Figures) int { _, most := pick(f); return most })
		return fmt.Sprintf("%s : %s", grouped(few.Median), grouped(many.Median))
	}}
}

// What is picked of the figures of a round.
func p50Nanos(f workloads.Figures) float64           { return float64(f.P50) }
func perSecond(f workloads.Figures) float64          { return f.PerSecond }
func redisMicros(f workloads.Figures) float64        { return f.RedisMicros }
func scriptsPerHandOver(f workloads.Figures) float64 { return f.Scripts }

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
