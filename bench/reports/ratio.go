package reports

import (
	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// ratio compares one figure of two entries, round by round: the machine may have
// been slower in one round than in another, but then it was so for both. Rounds in
// which one of them has no figure do not count.
func ratio(of, to *workloads.Entry, pick func(workloads.Figures) float64) workloads.Spread[float64] {
	var all []float64
	for i := range min(len(of.Rounds), len(to.Rounds)) {
		a, b := pick(of.Rounds[i]), pick(to.Rounds[i])
		if a > 0 && b > 0 {
			all = append(all, a/b)
		}
	}
	return workloads.SpreadOf(all)
}

// bestPeer is the fastest lock of somebody else's on the same client under the same
// workload, by the median; nil if there is none.
func bestPeer(entries []*workloads.Entry, e *workloads.Entry) (best *workloads.Entry) {
	for _, other := range entries {
		if !other.Contender.Peer() || other.Contender.Client != e.Contender.Client || other.Workload != e.Workload {
			continue
		}
		if best == nil || workloads.Over(other.Rounds, perSecond).Median > workloads.Over(best.Rounds, perSecond).Median {
			best = other
		}
	}
	return best
}

// bestOfAll is the entry of a lock of somebody else's, on any client under that workload,
// whose median of a figure is the best; nil if there is none.
func bestOfAll(entries []*workloads.Entry, workload string, pick func(workloads.Figures) float64, better func(a, b float64) bool) (best *workloads.Entry) {
	chosen := 0.
	for _, e := range entries {
		median := workloads.Over(measured(e.Rounds), pick).Median
		if e.Workload.ID == workload && e.Contender.Peer() && median > 0 && (best == nil || better(median, chosen)) {
			best, chosen = e, median
		}
	}
	return best
}

func more(a, b float64) bool { return a > b }
func less(a, b float64) bool { return a < b }

// limitOf is what no lock on the same client can beat unless it sends several
// goroutines' calls together; nil if that did not run.
func limitOf(entries []*workloads.Entry, e *workloads.Entry) *workloads.Entry {
	for _, other := range entries {
		if other.Contender.Bare && other.Contender.Client == e.Contender.Client && other.Workload == e.Workload {
			return other
		}
	}
	return nil
}

// ratios are an entry's throughput over that of others. Those that make no sense
// are zero.
type ratios struct {
	peer, best, limit, redisson workloads.Spread[float64] // best: on whatever client
}

func ratiosOf(entries []*workloads.Entry, e *workloads.Entry) (r ratios) {
	over := func(other *workloads.Entry) workloads.Spread[float64] {
		if other == nil || other == e {
			return workloads.Spread[float64]{}
		}
		return ratio(e, other, perSecond)
	}
	if e.Contender.Ours {
		r.peer = over(bestPeer(entries, e))
		r.best = over(bestOfAll(entries, e.Workload.ID, perSecond, more))
		r.redisson = over(find(entries, contenders.RedissonName, e.Workload))
	}
	r.limit = over(limitOf(entries, e))
	return r
}
