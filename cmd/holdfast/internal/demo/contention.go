package demo

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	workers   = 5
	contended = 2500 * time.Millisecond
)

// mutexShow is what the demo shows unless it is asked for something else.
var mutexShow = Show{
	Name:  mutexKind,
	About: "one owner at a time; reentrancy, renewal, a crash, losses (20 s)",
	intro: "A lock there is one key, which expires when its lease ends, so that a crashed holder cannot block others " +
		"for ever.",
	scenes: []scene{
		{"One lock, several workers, nobody overlaps", (*show).contention},
		{"The same owner may lock again", (*show).reentrancy},
		{"Work that takes longer than the lease", (*show).renewal},
		{"The holder crashes", (*show).crash},
		{"A holder that loses its lock is told", (*show).loss},
	},
}

// contention lets workers, each like a process of its own, want one lock.
func (s *show) contention() {
	s.sayf("%d workers want one lock, each with a client of its own, like %d processes. "+
		"Each worker times its stay by itself; the stays are compared afterwards.", workers, workers)
	name := s.key("contended")
	a := &arena{length: contended}
	s.enter(a, workers, actor{name: "worker", stay: between{50, 120}, rest: between{50, 200}},
		func(c *holdfast.Client, _ int) holdfast.Locker { return c.NewMutex(name) })
	s.enact(a)
	n, found := len(a.spans), clashes(a.spans, everybody)
	s.pointf("%d stays, %d hand-overs between workers, %d overlaps. Waiters do not poll: each release is "+
		"announced, and the next one has the lock at once.", n, a.handOvers(), found)
	s.measuredf("Contention: %d stays by %d workers, %d overlaps.", n, workers, found)
	promise(found == 0, "%d pairs of stays overlap", found)
	promise(a.handOvers() > 0, "the lock never went from one worker to another")
}
