package workloads

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/places"
)

// Figures are what one cell has measured.
type Figures struct {
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

	Contention

	// RedisMicros is what one completed pair has cost: the server process's time on a core, in user
	// and system mode, µs (INFO cpu).
	RedisMicros float64 `json:"redis_cpu_us_per_pair"`

	// Overlaps are visits during which somebody else was inside the same lock.
	Overlaps int `json:"overlaps"`
	// Timeouts are pairs that were cut short, Errors those that failed otherwise.
	Timeouts int    `json:"timeouts"`
	Errors   int    `json:"errors"`
	Error    string `json:"error,omitempty"` // the first
	// StoodStill: for as long as one pair may take, or in all of the window, no goroutine
	// completed any.
	StoodStill bool `json:"stood_still"`
	// Stuck goroutines did not come back when their context ended.
	Stuck int `json:"stuck"`
}

// Measured reports whether there is anything to show.
func (f Figures) Measured() bool { return f.P50 > 0 }

// Contention is what a cell on one lock has measured beyond that. Of a workload with
// locks for each goroutine, all is zero.
type Contention struct {
	// Waits are from the call of lock to being inside. The longest one may have come to
	// nothing: it had lasted so long when it was ended.
	WaitP50 time.Duration `json:"wait_p50_ns,omitempty"`
	WaitP99 time.Duration `json:"wait_p99_ns,omitempty"`
	WaitMax time.Duration `json:"wait_max_ns,omitempty"`
	// Hand-overs are to another goroutine than the one before, or, with several
	// processes, to another process, unless each goroutine has a client of its own. They
	// take from the call of unlock to being inside.
	HandOvers    int           `json:"hand_overs,omitempty"`
	HandOverMean time.Duration `json:"hand_over_mean_ns,omitempty"`
	HandOverP50  time.Duration `json:"hand_over_p50_ns,omitempty"`
	HandOverP99  time.Duration `json:"hand_over_p99_ns,omitempty"`
	// LongestFree is the longest time that nobody was inside though somebody waited.
	LongestFree time.Duration `json:"longest_free_ns,omitempty"`

	// With several processes: the pairs of the one that did the fewest, and the most, and
	// how many did none, though the window was long enough.
	Processes      int `json:"processes,omitempty"`
	ProcessFewest  int `json:"process_fewest,omitempty"`
	ProcessMost    int `json:"process_most,omitempty"`
	StillProcesses int `json:"still_processes,omitempty"`
	// Scripts are those that were run for each hand-over (INFO commandstats).
	Scripts float64 `json:"scripts_per_hand_over,omitempty"`
	// RoundTrip is the median time of a PING, from a connection of the same client, beside
	// all that. Only where hand-overs are what is measured.
	RoundTrip time.Duration `json:"round_trip_ns,omitempty"`
}

// summarize puts together what the gangs of a cell have done in its window.
func summarize(gangs []outcome, window time.Duration) Figures {
	f := Figures{Fewest: math.MaxInt, StoodStill: true}
	var took, waited, handOvers, pings []time.Duration
	for _, o := range gangs {
		for _, t := range o.Tallies {
			f = f.with(t)
			took, waited, handOvers = append(took, t.Took...), append(waited, t.Waited...), append(handOvers, t.HandOvers...)
		}
		f.Pairs += o.StuckPairs // they count, though they cannot be reported
		f.Stuck += o.Stuck
		f.Overlaps += o.Overlaps
		f.StoodStill = f.StoodStill && o.Still
		f.Error = cmp.Or(f.Error, o.Error)
		pings = append(pings, o.RoundTrips...)
		f = f.handedOver(o.room)
	}
	if f.Fewest == math.MaxInt {
		f.Fewest = 0
	}
	f.Completed = len(took)
	f.PerSecond = float64(f.Pairs) / window.Seconds()
	slices.Sort(took)
	f.P50, f.P99, f.Max = percentile(took, 50), percentile(took, 99), percentile(took, 100)
	slices.Sort(waited)
	f.WaitP50, f.WaitP99, f.WaitMax = percentile(waited, 50), percentile(waited, 99), max(f.WaitMax, percentile(waited, 100))
	slices.Sort(handOvers)
	f.HandOverP50, f.HandOverP99 = percentile(handOvers, 50), percentile(handOvers, 99)
	slices.Sort(pings)
	f.RoundTrip = percentile(pings, 50)
	return f
}

// with adds what a worker has said.
func (f Figures) with(t tally) Figures {
	f.Pairs += t.Pairs
	f.Fewest, f.Most = min(f.Fewest, t.Pairs), max(f.Most, t.Pairs)
	f.WaitMax = max(f.WaitMax, t.Unserved)
	f.Timeouts += t.Timeouts
	f.Errors += t.Errors
	f.Error = cmp.Or(f.Error, t.Failure)
	return f
}

// handedOver adds what a room has counted.
func (f Figures) handedOver(r places.RoomReading) Figures {
	f.HandOvers += int(r.HandOvers)
	if f.HandOvers > 0 {
		f.HandOverMean = r.HandOverTotal / time.Duration(f.HandOvers)
	}
	f.LongestFree = max(f.LongestFree, r.LongestFree)
	return f
}

// spent are the figures with what one of the cell's pairs has cost.
func (f Figures) spent(s places.Spending) Figures {
	if f.Completed > 0 {
		f.RedisMicros = float64(s.Total().CPU) / float64(time.Microsecond) / float64(f.Completed)
	}
	return f
}

// Remark says what was not as it should be in one cell; nothing if all was.
func (f Figures) Remark() string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(f.Overlaps > 0, "OVERLAPPED %d times", f.Overlaps)
	say(f.StoodStill, "stood still after %d pairs", f.Pairs)
	say(f.StillProcesses > 0 && !f.StoodStill, "%d of %d processes stood still", f.StillProcesses, f.Processes)
	say(f.Stuck > 0, "%d goroutines never came back", f.Stuck)
	say(f.Timeouts > 0, "%d pairs were cut short", f.Timeouts)
	say(f.Errors > 0, "%d errors, the first: %s", f.Errors, f.Error)
	return strings.Join(parts, "; ")
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

// Spread is one figure over all rounds. It is zero if there are none.
type Spread[T cmp.Ordered] struct {
	Median, Low, High T
}

// Over collects one figure of each round.
func Over[T cmp.Ordered](rounds []Figures, pick func(Figures) T) Spread[T] {
	all := make([]T, len(rounds))
	for i, f := range rounds {
		all[i] = pick(f)
	}
	return SpreadOf(all)
}

// SpreadOf sorts them.
func SpreadOf[T cmp.Ordered](all []T) (s Spread[T]) {
	if len(all) == 0 {
		return s
	}
	slices.Sort(all)
	// The lower one of the middle two: it has been measured, their mean has not.
	return Spread[T]{all[(len(all)-1)/2], all[0], all[len(all)-1]}
}

// Total adds up one count of all rounds.
func Total(rounds []Figures, pick func(Figures) int) (sum int) {
	for _, f := range rounds {
		sum += pick(f)
	}
	return sum
}
