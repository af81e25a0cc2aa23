package main

// ratio compares one figure of two entries, round by round: the machine may have
// been slower in one round than in another, but then it was so for both. Rounds in
// which one of them has no figure do not count.
func ratio(of, to *entry, pick func(figures) float64) spread[float64] {
	var all []float64
	for i := range min(len(of.rounds), len(to.rounds)) {
		a, b := pick(of.rounds[i]), pick(to.rounds[i])
		if a > 0 && b > 0 {
			all = append(all, a/b)
		}
	}
	return spreadOf(all)
}

// bestPeer is the fastest lock of somebody else's on the same client under the same
// workload, by the median; nil if there is none.
func bestPeer(entries []*entry, e *entry) (best *entry) {
	for _, other := range entries {
		if !other.contender.peer() || other.contender.client != e.contender.client || other.workload != e.workload {
			continue
		}
		if best == nil || over(other.rounds, perSecond).Median > over(best.rounds, perSecond).Median {
			best = other
		}
	}
	return best
}

// bestOfAll is the entry of a lock of somebody else's, on any client under that workload,
// whose median of a figure is the best; nil if there is none.
func bestOfAll(entries []*entry, workload string, pick func(figures) float64, better func(a, b float64) bool) (best *entry) {
	chosen := 0.
	for _, e := range entries {
		median := over(measured(e.rounds), pick).Median
		if e.workload.ID == workload && e.contender.peer() && median > 0 && (best == nil || better(median, chosen)) {
			best, chosen = e, median
		}
	}
	return best
}

func more(a, b float64) bool { return a > b }
func less(a, b float64) bool { return a < b }

// limitOf is what no lock on the same client can beat unless it sends several
// goroutines' calls together; nil if that did not run.
func limitOf(entries []*entry, e *entry) *entry {
	for _, other := range entries {
		if other.contender.bare && other.contender.client == e.contender.client && other.workload == e.workload {
			return other
		}
	}
	return nil
}

// ratios are an entry's throughput over that of others. Those that make no sense
// are zero.
type ratios struct {
	peer, best, limit, redisson spread[float64] // best: on whatever client
}

func ratiosOf(entries []*entry, e *entry) (r ratios) {
	over := func(other *entry) spread[float64] {
		if other == nil || other == e {
			return spread[float64]{}
		}
		return ratio(e, other, perSecond)
	}
	if e.contender.ours {
		r.peer = over(bestPeer(entries, e))
		r.best = over(bestOfAll(entries, e.workload.ID, perSecond, more))
		r.redisson = over(find(entries, redissonName, e.workload))
	}
	r.limit = over(limitOf(entries, e))
	return r
}
