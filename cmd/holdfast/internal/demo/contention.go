package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	intro: "A lock there is one key, which expires when its lease ends, so that a crashed holder cannot block others for ever.",
	scenes: []scene{
		{"One lock, several workers, nobody overlaps", (*show).contention},
		{"The same owner may lock again", (*show).reentrancy},
		{"Work that takes longer than the lease", (*show).renewal},
		{"The holder crashes", (*show).crash},
		{"A holder that loses its lock is told", (*show).loss},
	},
}

// contention lets workers, each like a process of its own, want one lock.
func (s *show) contention(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d workers want one lock, each with a client of its own, like %d processes. "+
		"Each worker times its stay by itself; the stays are compared afterwards.", workers, workers))
	name := s.key("contended")
	a := &arena{length: contended, tally: func(a *arena) string { return fmt.Sprintf("%2d hand-overs", a.handOvers()) }}
	for i := range workers {
		a.actors = append(a.actors, actor{
			name: fmt.Sprintf("worker %d", i+1), short: strconv.Itoa(i + 1),
			lock: func(c *holdfast.Client) holdfast.Locker { return c.NewMutex(name) },
			stay: between{50, 120}, rest: between{50, 200},
		})
	}
	if err := s.enact(ctx, a); err != nil {
		return err
	}
	return s.judge(a)
}

// handOvers counts how often the lock went from one actor to another.
func (a *arena) handOvers() (n int) {
	for i := 1; i < len(a.spans); i++ {
		if a.spans[i].actor != a.spans[i-1].actor {
			n++
		}
	}
	return n
}

func (s *show) judge(a *arena) error {
	n, found := len(a.spans), overlaps(a.spans)
	s.Stage.Point(fmt.Sprintf("%d stays, %d hand-overs between workers, %d overlaps. Waiters do not poll: each release is "+
		"announced, and the next one has the lock at once.", n, a.handOvers(), found))
	s.measuredf("Contention: %d stays by %d workers, %d overlaps.", n, workers, found)
	switch {
	case found > 0:
		return fmt.Errorf("%d stays began before another had ended", found)
	case a.handOvers() == 0:
		return errors.New("the lock never went from one worker to another")
	}
	return nil
}
