package main

import "time"

// goalFigure says which figure a goal is about.
type goalFigure int

const (
	throughput      goalFigure = iota // pairs/s
	median                            // the p50 of a pair
	longWait                          // the p99 of a wait
	longestWait                       // ms
	evenness                          // the pairs of the goroutine with the fewest, over those of the one with the most
	processEvenness                   // the same of processes
	handOverMedian                    // the p50 of hand-overs, in round trips
	handOverTail                      // the p99 of them, in round trips
)

// atMost: the less, the better.
func (f goalFigure) atMost() bool {
	return f != throughput && f != evenness && f != processEvenness
}

// pick returns how to find it in the figures of a round.
func (f goalFigure) pick() func(figures) float64 {
	switch f {
	case median:
		return p50Nanos
	case longWait:
		return func(f figures) float64 { return float64(f.WaitP99) }
	case longestWait:
		return func(f figures) float64 { return f.WaitMax.Seconds() * 1000 }
	case evenness:
		return func(f figures) float64 { return quotient(f.Fewest, f.Most) }
	case processEvenness:
		return func(f figures) float64 { return quotient(f.ProcessFewest, f.ProcessMost) }
	case handOverMedian:
		return func(f figures) float64 { return inTrips(f, f.HandOverP50) }
	case handOverTail:
		return func(f figures) float64 { return inTrips(f, f.HandOverP99) }
	default:
		return perSecond
	}
}

func quotient(of, to int) float64 { return float64(of) / float64(max(1, to)) }

// inTrips is a time in round trips; 0 if these were not measured.
func inTrips(f figures, d time.Duration) float64 {
	if f.RoundTrip == 0 {
		return 0
	}
	return float64(d) / float64(f.RoundTrip)
}

// String is the name of the figure in tables and records.
func (f goalFigure) String() string {
	return [...]string{
		"pairs/s", columnP50, "p99 of waits", "longest wait, ms", "fewest/most", "fewest/most, processes", "p50, trips", "p99, trips",
	}[f]
}
