package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// figures are what one cell has measured.
type figures struct {
	// Pairs were completed within the window, Completed are all that were begun in
	// it and completed.
	Pairs     int     `json:"pairs"`
	Completed int     `json:"completed"`
	PerSecond float64 `json:"pairs_per_second"`
	// P50, P99 and Max are times from the call of lock to the return of unlock,
	// of the pairs that were begun within the window.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// Fewest and Most are the pairs of the goroutines that did the fewest and the
	// most.
	Fewest int `json:"fewest"`
	Most   int `json:"most"`

	// What one completed pair has cost: the server process's time on a core, in user
	// and system mode, µs (INFO cpu); the commands that the server has executed, those
	// that scripts call included (INFO commandstats); the allocations of this process,
	// 0 if the contender is another one.
	RedisMicros float64 `json:"redis_cpu_us_per_pair"`
	Executed    float64 `json:"commands_executed_per_pair"`
	Allocs      float64 `json:"allocations_per_pair,omitempty"`

	// Overlaps are visits during which somebody else was inside the same lock.
	Overlaps int `json:"overlaps"`
	// Timeouts are pairs that were cut short, Errors those that failed otherwise.
	Timeouts int    `json:"timeouts"`
	Errors   int    `json:"errors"`
	Error    string `json:"error,omitempty"` // the first
	// StoodStill: for as long as one pair may take, no goroutine completed any.
	StoodStill bool `json:"stood_still"`
	// Stuck goroutines did not come back when their context ended.
	Stuck int `json:"stuck"`
}

// measured reports whether there is anything to show.
func (f figures) measured() bool { return f.P50 > 0 }

func summarize(tallies []tally, window time.Duration) figures {
	f := figures{Fewest: math.MaxInt}
	var took []time.Duration
	for _, t := range tallies {
		f.Pairs += t.pairs
		f.Fewest, f.Most = min(f.Fewest, t.pairs), max(f.Most, t.pairs)
		f.Timeouts += t.timeouts
		f.Errors += t.errors
		if f.Error == "" && t.failure != nil {
			f.Error = t.failure.Error()
		}
		took = append(took, t.took...)
	}
	if len(tallies) == 0 {
		f.Fewest = 0
	}
	f.Completed = len(took)
	f.PerSecond = float64(f.Pairs) / window.Seconds()
	slices.Sort(took)
	f.P50, f.P99, f.Max = percentile(took, 50), percentile(took, 99), percentile(took, 100)
	return f
}

// percentile returns the smallest element that p percent of the elements do not
// exceed, 0 if there are none. The elements are sorted.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// spread is one figure over all rounds. It is zero if there are none.
type spread[T cmp.Ordered] struct {
	Median T `json:"median"`
	Low    T `json:"min"`
	High   T `json:"max"`
}

// over collects one figure of each round.
func over[T cmp.Ordered](rounds []figures, pick func(figures) T) spread[T] {
	all := make([]T, len(rounds))
	for i, f := range rounds {
		all[i] = pick(f)
	}
	return spreadOf(all)
}

// spreadOf sorts them.
func spreadOf[T cmp.Ordered](all []T) (s spread[T]) {
	if len(all) == 0 {
		return s
	}
	slices.Sort(all)
	// The lower one of the middle two: it has been measured, their mean has not.
	return spread[T]{all[(len(all)-1)/2], all[0], all[len(all)-1]}
}

// total adds up one count of all rounds.
func total(rounds []figures, pick func(figures) int) (sum int) {
	for _, f := range rounds {
		sum += pick(f)
	}
	return sum
}
