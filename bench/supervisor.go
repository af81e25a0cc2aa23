package main

import (
	"context"
	"time"
)

// A supervisor waits for the workers of a gang, and sees to it that they end.
type supervisor struct {
	gang    *gang
	workers []*worker
	results <-chan tally
	cancel  context.CancelFunc
	start   time.Time

	tallies []tally
	still   bool
}

// watch returns when every worker has reported, or when those that have not are
// given up.
func (s *supervisor) watch(ctx context.Context) {
	tick := time.NewTicker(s.gang.limit / 10)
	defer tick.Stop()
	giveUp := time.NewTimer(s.gang.workload.ramp + s.gang.window + 3*s.gang.limit)
	defer giveUp.Stop()
	for len(s.tallies) < len(s.workers) {
		select {
		case t := <-s.results:
			s.tallies = append(s.tallies, t)
		case now := <-tick.C:
			if ctx.Err() == nil {
				s.look(now)
			}
		case <-giveUp.C:
			return
		}
	}
}

// look ends what takes too long: the whole gang if nothing moves in it, a single
// pair otherwise.
func (s *supervisor) look(now time.Time) {
	oldest := now.Add(-s.gang.limit)
	if s.moved().Before(oldest) {
		s.still = true
		s.cancel()
		return
	}
	for _, w := range s.workers {
		w.cutIfOlder(oldest)
	}
}

// moved returns when the gang last completed a pair; its start if it has not.
func (s *supervisor) moved() time.Time {
	latest := s.start
	for _, w := range s.workers {
		if at := time.Unix(0, w.last.Load()); at.After(latest) {
			latest = at
		}
	}
	return latest
}

func (s *supervisor) completed() (pairs int64) {
	for _, w := range s.workers {
		pairs += w.pairs.Load()
	}
	return pairs
}
