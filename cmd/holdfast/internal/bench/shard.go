package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// shards is how many histograms the workers share: one would make them take turns, and
// one for each would need too much memory.
const shards = 16

// The times that a histogram tells apart: to three digits, up to a day.
const (
	digits  = 3
	highest = int64(longest)
)

// A shard counts the pairs of some workers.
type shard struct {
	mu     sync.Mutex // guards what follows
	pairs  int64
	wait   *hdrhistogram.Histogram
	unlock *hdrhistogram.Histogram
}

func newShards() []shard {
	all := make([]shard, shards)
	for i := range all {
		all[i].wait, all[i].unlock = hdrhistogram.New(1, highest, digits), hdrhistogram.New(1, highest, digits)
	}
	return all
}

// note counts a pair.
func (s *shard) note(wait, unlock time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pairs++
	record(s.wait, wait)
	record(s.unlock, unlock)
}

// record counts a time. Nothing takes longer than a run, so there is room for it.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(1, d.Nanoseconds()), highest))
}

// pairs are all so far.
func (r *run) pairs() (sum int64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		sum += s.pairs
		s.mu.Unlock()
	}
	return sum
}
