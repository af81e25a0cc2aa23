package tails

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/places"
)

// series is what was measured of one subject under one fault.
type series struct {
	Measure string    `json:"measure"`
	Subject string    `json:"subject"`
	Never   bool      `json:"never,omitempty"`  // nobody was ever told
	Missed  int       `json:"missed,omitempty"` // trials in which it was not in time
	Millis  []float64 `json:"ms,omitempty"`     // in order of size
	Load    string    `json:"load"`
	Seed    uint64    `json:"seed"`
}

// sampler collects the samples of a series, from several goroutines.
type sampler struct {
	mu     sync.Mutex
	all    []time.Duration
	missed int
}

// since adds how long it took until something was; if it never was, the trial was missed. There was no trial
// without a start.
func (s *sampler) since(start, at time.Time) {
	if start.IsZero() {
		return
	}
	if !at.IsZero() {
		s.add(at.Sub(start))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed++
}

func (s *sampler) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

var figuresFile sync.Mutex

// done ends a series: it is told, and written down.
func (s *sampler) done(t *testing.T, measure, subject string) series {
	t.Helper()
	r := series{Measure: measure, Subject: subject, Never: len(s.all)+s.missed == 0, Missed: s.missed, Load: places.Load(), Seed: settings.seed}
	for _, d := range s.all {
		r.Millis = append(r.Millis, math.Round(d.Seconds()*1e5)/100)
	}
	slices.Sort(r.Millis)
	t.Log(r)
	if settings.figures == "" {
		return r
	}
	figuresFile.Lock()
	defer figuresFile.Unlock()
	f, err := os.OpenFile(settings.figures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		err = json.NewEncoder(f).Encode(r)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
	return r
}

func (r series) trials() int { return len(r.Millis) + r.Missed }

// at is the sample that the given part of all do not exceed.
func (r series) at(part float64) float64 {
	if r.trials() == 0 {
		return math.NaN()
	}
	i := max(0, int(math.Ceil(part*float64(r.trials())))-1)
	if i >= len(r.Millis) {
		return math.Inf(1) // not in time
	}
	return r.Millis[i]
}

func (r series) most() float64 { return r.at(1) }

func (r series) String() string {
	if r.Never {
		return fmt.Sprintf("%s, %s: never", r.Measure, r.Subject)
	}
	return fmt.Sprintf("%s, %s: %d (and %d not in time), least %.1f, p50 %.1f, p99 %.1f, most %.1f ms; load %s",
		r.Measure, r.Subject, len(r.Millis), r.Missed, r.at(0), r.at(0.5), r.at(0.99), r.most(), r.Load)
}
