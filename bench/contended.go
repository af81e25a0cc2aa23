package main

import (
	"fmt"
	"time"
)

// contended are the tables of a workload on one lock: what the goroutines get, and how
// the lock changes hands.
func contended(entries []*entry, w workload) []*table {
	withRedisson := find(entries, redissonName, w) != nil
	t := &table{}
	head := []string{w.title, columnRate, "wait p50", columnP99, "max", "goroutines", columnRedis, columnRun, "×best"}
	if withRedisson {
		head = append(head, "×Java")
	}
	t.add(head...)
	for _, e := range entries {
		cells := []string{
			e.contender.short(), e.rate(),
			e.time(func(f figures) time.Duration { return f.WaitP50 }),
			e.time(func(f figures) time.Duration { return f.WaitP99 }),
			e.time(func(f figures) time.Duration { return f.WaitMax }),
			e.shares(func(f figures) (int, int) { return f.Fewest, f.Most }),
			short(over(e.rounds, redisMicros).Median), decimal(over(e.rounds, executedPerPair).Median, 1),
		}
		r := ratiosOf(entries, e)
		cells = append(cells, hundredths(r.Best.Median))
		if withRedisson {
			cells = append(cells, hundredths(r.Redisson.Median))
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
	head := []string{w.title + ": hand-overs", "a second", "mean", columnP50, columnP99, "free"}
	switch {
	case w.alternate:
		head = append(head, "scripts", "ping", "trips p50", columnP99)
	case w.processes > 0:
		head = append(head, "scripts", "processes")
	}
	t.add(head...)
	for _, e := range entries {
		cells := []string{
			e.contender.short(),
			whole(over(e.rounds, func(f figures) float64 { return f.handOversPerSecond() }).Median),
			e.time(func(f figures) time.Duration { return f.HandOverMean }),
			e.time(func(f figures) time.Duration { return f.HandOverP50 }),
			e.time(func(f figures) time.Duration { return f.HandOverP99 }),
			e.time(func(f figures) time.Duration { return f.LongestFree }),
		}
		if w.processes > 0 {
			cells = append(cells, decimal(over(e.rounds, scriptsPerHandOver).Median, 1))
		}
		switch {
		case w.alternate:
			cells = append(cells, e.time(func(f figures) time.Duration { return f.RoundTrip }),
				hundredths(over(e.rounds, handOverMedian.pick()).Median), hundredths(over(e.rounds, handOverTail.pick()).Median))
		case w.processes > 0:
			cells = append(cells, e.shares(func(f figures) (int, int) { return f.ProcessFewest, f.ProcessMost }))
		}
		t.add(cells...)
	}
	return t
}

// time is the median of a time over the rounds.
func (e *entry) time(pick func(figures) time.Duration) string {
	return brief(over(e.rounds, pick).Median)
}

// shares are the fewest and the most pairs of somebody, medians over the rounds.
func (e *entry) shares(pick func(figures) (fewest, most int)) string {
	few := over(e.rounds, func(f figures) int { fewest, _ := pick(f); return fewest })
	many := over(e.rounds, func(f figures) int { _, most := pick(f); return most })
	return fmt.Sprintf("%s : %s", grouped(few.Median), grouped(many.Median))
}

func scriptsPerHandOver(f figures) float64 { return f.Scripts }

// handOversPerSecond are hand-overs for as many pairs as there are in a second.
func (f figures) handOversPerSecond() float64 {
	if f.Pairs == 0 {
		return 0
	}
	return float64(f.HandOvers) / float64(max(f.Pairs, f.Completed)) * f.PerSecond
}
