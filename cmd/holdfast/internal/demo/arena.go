package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const frame = 60 * time.Millisecond

// actor is one who takes a lock again and again, with a client of its own.
type actor struct {
	name, short string
	lock        func(c *holdfast.Client) holdfast.Locker
	stay, rest  between
}

// between is from when to when something may end, in milliseconds.
type between struct{ low, high int }

func (b between) randomly() time.Duration {
	return time.Duration(b.low+rand.IntN(b.high-b.low)) * time.Millisecond //nolint:gosec // no secret
}

// span is one stay inside the lock, as the actor itself has timed it: from the
// return of Lock to the call of Unlock.
type span struct {
	actor      int
	start, end time.Time // end is zero while it lasts
}

// arena is where actors want locks, and what they have done.
type arena struct {
	actors []actor
	length time.Duration
	tally  func(*arena) string // what is counted, for the reader; called with mu held

	began   time.Time
	mu      sync.Mutex
	waiting []bool
	spans   []span
}

// enact shows it, and returns when all actors have left. The stays are then in
// the order of their begin.
func (s *show) enact(ctx context.Context, a *arena) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	closing, cancel := context.WithTimeout(ctx, a.length)
	defer cancel()
	a.began, a.waiting = time.Now(), make([]bool, len(a.actors))
	failures := make(chan error, len(a.actors))
	var all sync.WaitGroup
	defer all.Wait()
	for i, who := range a.actors {
		client, done, err := s.client(nil)
		if err != nil {
			return err
		}
		all.Go(func() {
			defer done()
			failures <- a.work(closing, i, who.lock(client))
		})
	}
	s.watchArena(closing, a)
	for range a.actors {
		if err := <-failures; err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// work takes the lock again and again until ctx ends.
func (a *arena) work(ctx context.Context, i int, lock holdfast.Locker) error {
	for {
		a.wait(i, true)
		hold, err := lock.Lock(ctx)
		a.wait(i, false)
		if ctx.Err() != nil && err != nil {
			return nil //nolint:nilerr // the scene is over, and that is no failure
		}
		if err != nil {
			return err
		}
		n := a.enter(i)
		time.Sleep(a.actors[i].stay.randomly())
		a.leave(n)
		if err := hold.Unlock(); err != nil {
			return err
		}
		time.Sleep(a.actors[i].rest.randomly())
	}
}

func (a *arena) wait(i int, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[i] = yes
}

func (a *arena) enter(i int) int {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans = append(a.spans, span{actor: i, start: now})
	return len(a.spans) - 1
}

func (a *arena) leave(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans[n].end = time.Now()
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

// inside reports who holds now.
func (a *arena) inside() []bool {
	inside := make([]bool, len(a.actors))
	for _, sp := range a.spans {
		inside[sp.actor] = inside[sp.actor] || sp.end.IsZero()
	}
	return inside
}

// line says how things stand.
func (a *arena) line() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	holders, waiting, all := a.shorts(a.inside()), a.shorts(a.waiting), a.shorts(nil)
	holder := "nobody holds"
	switch len(holders) {
	case 0:
	case 1:
		holder = a.actors[slices.Index(a.inside(), true)].name + " holds"
	default:
		holder = strings.Join(holders, " ") + " hold"
	}
	if len(waiting) == 0 {
		waiting = []string{"nobody"}
	}
	return fmt.Sprintf("%s  %-*s  waiting: %-*s  %s", seconds(time.Since(a.began)), len(strings.Join(all, " "))+5, holder,
		max(7, len(strings.Join(all[1:], " "))), strings.Join(waiting, " "), a.tally(a))
}

// shorts are the short names of those of whom something is true, nil being true
// of all.
func (a *arena) shorts(of []bool) (names []string) {
	for i, who := range a.actors {
		if of == nil || of[i] {
			names = append(names, who.short)
		}
	}
	return names
}

// picture has a row for each actor and a column for each slice of time.
func (s *show) picture(a *arena) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	columns := max(8, min(s.Stage.Width()-18, 60))
	now := time.Now()
	passed := min(columns, int(now.Sub(a.began)*time.Duration(columns)/a.length))
	inside := a.inside()
	rows := make([]string, 0, len(a.actors)+1)
	for i, who := range a.actors {
		row := []rune(strings.Repeat("·", passed))
		for _, sp := range a.spans {
			if sp.actor == i {
				a.paint(row, sp, now, columns)
			}
		}
		rows = append(rows, fmt.Sprintf("%-8s  %s  %s", who.name, s.state(inside[i], a.waiting[i]), string(row)))
	}
	return append(rows, "█ inside the lock   "+strings.TrimLeft(a.tally(a), " "))
}

// paint fills the columns whose middle lies in the stay, so two rows share a
// column only if two stays overlap.
func (a *arena) paint(row []rune, sp span, now time.Time, columns int) {
	end := sp.end
	if end.IsZero() {
		end = now
	}
	slice := a.length / time.Duration(columns)
	for c := range row {
		middle := a.began.Add(time.Duration(c)*slice + slice/2)
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

// overlaps counts the pairs of neighbouring stays of which the later one began
// before the earlier ones had ended.
func overlaps(spans []span) (n int) {
	sorted := byStart(spans)
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

// clashes counts the pairs of overlapping stays in which either is one of those
// who must be alone.
func clashes(spans []span, alone func(actor int) bool) (n int) {
	for i, x := range spans {
		for _, y := range spans[:i] {
			if (alone(x.actor) || alone(y.actor)) && x.start.Before(y.end) && y.start.Before(x.end) {
				n++
			}
		}
	}
	return n
}

// most is the greatest number of stays at one time.
func most(spans []span) (n int) {
	for _, x := range spans {
		// It changes for the worse only when a stay begins.
		now := 0
		for _, y := range spans {
			if !y.start.After(x.start) && y.end.After(x.start) {
				now++
			}
		}
		n = max(n, now)
	}
	return n
}

func byStart(spans []span) []span {
	return slices.SortedFunc(slices.Values(spans), func(x, y span) int { return x.start.Compare(y.start) })
}
