package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	workers   = 5
	contended = 2500 * time.Millisecond
	frame     = 60 * time.Millisecond
)

// span is one stay inside the lock, as the worker itself has timed it: from the
// return of Lock to the call of Unlock.
type span struct {
	worker     int
	start, end time.Time // end is zero while it lasts
}

// arena is what the workers have done.
type arena struct {
	began time.Time

	mu      sync.Mutex
	waiting [workers]bool
	spans   []span
}

// contention lets workers, each like a process of its own, want one lock.
func (s *show) contention(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d workers want one lock, each with a client of its own, like %d processes. "+
		"Each worker times its stay by itself; the stays are compared afterwards.", workers, workers))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	closing, cancel := context.WithTimeout(ctx, contended)
	defer cancel()
	a := &arena{began: time.Now()}
	failures := make(chan error, workers)
	var all sync.WaitGroup
	defer all.Wait()
	name := s.key("contended")
	for i := range workers {
		client, done, err := s.client(nil)
		if err != nil {
			return err
		}
		all.Go(func() {
			defer done()
			failures <- a.work(closing, i, client.NewMutex(name))
		})
	}
	s.watchArena(closing, a)
	for range workers {
		if err := <-failures; err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.judge(a)
}

// work takes the lock again and again until ctx ends.
func (a *arena) work(ctx context.Context, worker int, mu *holdfast.Mutex) error {
	for {
		a.wait(worker, true)
		hold, err := mu.Lock(ctx)
		a.wait(worker, false)
		if ctx.Err() != nil && err != nil {
			return nil //nolint:nilerr // the scene is over, and that is no failure
		}
		if err != nil {
			return err
		}
		i := a.enter(worker)
		time.Sleep(randomly(50, 120))
		a.leave(i)
		if err := hold.Unlock(); err != nil {
			return err
		}
		time.Sleep(randomly(50, 200))
	}
}

func randomly(low, high int) time.Duration {
	return time.Duration(low+rand.IntN(high-low)) * time.Millisecond //nolint:gosec // no secret
}

func (a *arena) wait(worker int, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[worker] = yes
}

func (a *arena) enter(worker int) int {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans = append(a.spans, span{worker: worker, start: now})
	return len(a.spans) - 1
}

func (a *arena) leave(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans[i].end = time.Now()
}

// watchArena shows it until ctx ends.
func (s *show) watchArena(ctx context.Context, a *arena) {
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Stage.Live(s.picture(a), a.line())
		case <-ctx.Done():
			s.Stage.Live(s.picture(a), a.line())
			s.Stage.Keep()
			return
		}
	}
}

// line says how things stand.
func (a *arena) line() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	holder, waiting := "nobody holds", ""
	for i := range workers {
		if a.waiting[i] {
			waiting += fmt.Sprintf(" %d", i+1)
		}
	}
	if n := len(a.spans); n > 0 && a.spans[n-1].end.IsZero() {
		holder = fmt.Sprintf("worker %d holds", a.spans[n-1].worker+1)
	}
	if waiting == "" {
		waiting = " nobody"
	}
	return fmt.Sprintf("%s  %-14s  waiting:%-8s  %2d hand-overs", seconds(time.Since(a.began)), holder, waiting, a.handOvers())
}

// picture has a row for each worker and a column for each slice of time.
func (s *show) picture(a *arena) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	columns := max(8, min(s.Stage.Width()-18, 60))
	now := time.Now()
	passed := min(columns, int(now.Sub(a.began)*time.Duration(columns)/contended))
	rows := make([]string, 0, workers+1)
	for i := range workers {
		row := []rune(strings.Repeat("·", passed))
		inside := false
		for _, sp := range a.spans {
			if sp.worker == i {
				inside = inside || sp.end.IsZero()
				paint(row, a.began, sp, now, columns)
			}
		}
		rows = append(rows, fmt.Sprintf("worker %d  %s  %s", i+1, s.state(inside, a.waiting[i]), string(row)))
	}
	return append(rows, fmt.Sprintf("█ inside the lock   %d hand-overs", a.handOvers()))
}

// paint fills the columns whose middle lies in the stay, so two rows share a
// column only if two stays overlap.
func paint(row []rune, began time.Time, sp span, now time.Time, columns int) {
	end := sp.end
	if end.IsZero() {
		end = now
	}
	slice := contended / time.Duration(columns)
	for c := range row {
		middle := began.Add(time.Duration(c)*slice + slice/2)
		if !middle.Before(sp.start) && middle.Before(end) {
			row[c] = '█'
		}
	}
}

func (s *show) state(inside, waiting bool) string {
	switch {
	case inside:
		return s.Stage.Mark(Good, "HOLDS")
	case waiting:
		return "waits"
	default:
		return s.Stage.Mark(Dim, "rests")
	}
}

// handOvers counts how often the lock went from one worker to another.
func (a *arena) handOvers() (n int) {
	for i := 1; i < len(a.spans); i++ {
		if a.spans[i].worker != a.spans[i-1].worker {
			n++
		}
	}
	return n
}

// overlaps counts the pairs of neighbouring stays of which the later one began
// before the earlier ones had ended.
func overlaps(spans []span) (n int) {
	sorted := slices.SortedFunc(slices.Values(spans), func(x, y span) int { return x.start.Compare(y.start) })
	var latest time.Time
	for i, sp := range sorted {
		if i > 0 && sp.start.Before(latest) {
			n++
		}
		if sp.end.After(latest) {
			latest = sp.end
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
