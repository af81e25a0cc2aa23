package bench

import (
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Result is what was measured.
type Result struct {
	Server     string        `json:"server"`
	Kind       Kind          `json:"kind"`
	Goroutines int           `json:"goroutines"`
	Locks      int           `json:"locks"`
	Hold       time.Duration `json:"hold_ns"`
	// WithoutHandOver is whether each pair went through Redis.
	WithoutHandOver bool `json:"without_hand_over"`
	// Elapsed is less than was asked for if the run was Interrupted.
	Elapsed     time.Duration `json:"elapsed_ns"`
	Interrupted bool          `json:"interrupted"`

	Pairs     int64   `json:"pairs"`
	PerSecond float64 `json:"pairs_per_second"`
	// Wait is from the call of Lock until the lock is held, Unlock the call of that.
	Wait   Times `json:"wait"`
	Unlock Times `json:"unlock"`
	// Waits are the waits, counted by how long they took.
	Waits []Bucket `json:"waits"`
	// Fewest and Most are pairs of a goroutine.
	Fewest int64 `json:"fewest"`
	Most   int64 `json:"most"`
	// Waiting goroutines had not got the lock when the time was up. The longest of these
	// waits had taken so long.
	Waiting  int           `json:"waiting"`
	Unserved time.Duration `json:"longest_unserved_ns"`
	// Overlaps are visits during which somebody else was inside the same lock.
	Overlaps int64 `json:"overlaps"`
	// Failures are pairs that failed, Failure is why the first one did.
	Failures int64  `json:"failures"`
	Failure  string `json:"failure,omitempty"`

	// ThroughRedis is the result of the same workload without handoff and shared reads, if this result had either.
	ThroughRedis *Result `json:"through_redis,omitempty"`

	cause error // of the first failure
}

// Times sum up how long something took.
type Times struct {
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
}

// Bucket counts times that are shorter than its end, and not in the bucket before.
type Bucket struct {
	Below time.Duration `json:"below_ns"`
	Count int64         `json:"count"`
}

func (r *run) result(workers []*worker, elapsed time.Duration, interrupted bool) *Result {
	result := &Result{
		Server: r.Target.String(), Kind: r.Kind, Goroutines: r.Goroutines, Locks: r.Locks, Hold: r.Hold, WithoutHandOver: r.WithoutHandOver,
		Elapsed: elapsed, Interrupted: interrupted, Fewest: workers[0].pairs,
	}
	for _, w := range workers {
		result.add(w)
	}
	for i := range r.rooms {
		result.Overlaps += r.rooms[i].overlaps.Load()
	}
	wait, unlock := hdrhistogram.New(1, highest, digits), hdrhistogram.New(1, highest, digits)
	for i := range r.shards {
		wait.Merge(r.shards[i].wait)
		unlock.Merge(r.shards[i].unlock)
	}
	result.Wait, result.Unlock, result.Waits = timesOf(wait), timesOf(unlock), buckets(wait)
	result.PerSecond = float64(result.Pairs) / elapsed.Seconds()
	return result
}

// add adds what a worker has done. It has ended.
func (r *Result) add(w *worker) {
	r.Pairs += w.pairs
	r.Fewest, r.Most = min(r.Fewest, w.pairs), max(r.Most, w.pairs)
	if w.unserved > 0 {
		r.Waiting++
		r.Unserved = max(r.Unserved, w.unserved)
	}
	r.Failures += w.failures
	if r.cause == nil && w.failure != nil {
		r.cause, r.Failure = w.failure, w.failure.Error()
	}
}

func timesOf(h *hdrhistogram.Histogram) Times {
	if h.TotalCount() == 0 {
		return Times{}
	}
	return Times{
		Mean: time.Duration(h.Mean()), P50: time.Duration(h.ValueAtQuantile(50)),
		P99: time.Duration(h.ValueAtQuantile(99)), Max: time.Duration(h.Max()),
	}
}

// buckets counts times by decades, each in three: 1, 2, 5, 10, 20, 50 and so on. There
// are none before the first and behind the last that is not empty.
func buckets(h *hdrhistogram.Histogram) (all []Bucket) {
	bars := h.Distribution()
	below := int64(1)
	for step := 0; len(bars) > 0; step++ {
		count := int64(0)
		for len(bars) > 0 && bars[0].From < below {
			count += bars[0].Count
			bars = bars[1:]
		}
		if count > 0 || len(all) > 0 {
			all = append(all, Bucket{time.Duration(below), count})
		}
		if step%3 == 1 {
			below = below / 2 * 5
		} else {
			below *= 2
		}
	}
	for len(all) > 0 && all[len(all)-1].Count == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// failure says what was not as it should be; nil if all was.
func (r *Result) failure() *exit.Error {
	var backend *holdfast.BackendError
	switch {
	case r.Overlaps > 0:
		return exit.Because(exit.Failed, "two goroutines were inside one lock, %d times", r.Overlaps)
	case r.Failures == 0:
		return nil
	case errors.As(r.cause, &backend):
		return exit.Because(exit.Unavailable, "%d pairs failed, because Redis (%s) cannot be used: %v", r.Failures, r.Server, connect.Explain(backend.Err))
	default:
		return exit.Because(exit.Failed, "%d pairs failed, the first one so: %v", r.Failures, r.cause)
	}
}
