package demo

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// actor is one who takes a lock again and again, with a client of its own.
type actor struct {
	name, short string
	lock        holdfast.Locker
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
	actors   []actor
	length   time.Duration
	together bool // several may be inside, so what is counted for the reader is how many are

	began time.Time
	mu    sync.Mutex
	now   []doing  // what each actor does
	past  []string // what each did at each frame, as a row of the picture
	spans []span
}

// doing is what an actor does.
type doing string

const (
	rests doing = "rests"
	waits doing = "waits"
	holds doing = "HOLDS"
)

var marked = map[doing]mark{rests: dim, waits: plain, holds: good}

// enter adds actors, each with a client of its own, who are called by what they are and a number.
func (s *show) enter(a *arena, n int, what actor, lock func(c *holdfast.Client, i int) holdfast.Locker) {
	for i := range n {
		one, number := what, strconv.Itoa(i+1)
		one.name, one.short = what.name+" "+number, what.short+number
		one.lock = lock(s.client(), i)
		a.actors = append(a.actors, one)
	}
}

// enact shows it, and returns when all actors have left. The stays are then in
// the order of their begin.
func (s *show) enact(a *arena) {
	a.began, a.now, a.past = time.Now(), slices.Repeat([]doing{rests}, len(a.actors)), make([]string, len(a.actors))
	group, ctx := errgroup.WithContext(s.ctx)
	ctx, cancel := context.WithTimeout(ctx, a.length)
	defer func() {
		cancel()
		_ = group.Wait()
	}()
	for i := range a.actors {
		group.Go(func() error { return a.work(ctx, i) })
	}
	until(s, ctx.Done(), func() { s.Stage.live(s.picture(a), a.line()) })
	s.Stage.live(s.picture(a), a.line())
	s.Stage.keep()
	check(group.Wait())
	check(context.Cause(s.ctx))
}

// work takes the lock again and again until ctx ends.
func (a *arena) work(ctx context.Context, i int) error {
	who := a.actors[i]
	for {
		a.note(func() { a.now[i] = waits })
		hold, err := who.lock.Lock(ctx)
		stay, n := span{actor: i, start: time.Now()}, 0
		if err != nil {
			a.note(func() { a.now[i] = rests })
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the scene is over, and that is no failure
			}
			return err
		}
		a.note(func() {
			n, a.spans = len(a.spans), append(a.spans, stay)
			a.now[i] = holds
		})
		time.Sleep(who.stay.randomly())
		a.note(func() { a.now[i], a.spans[n].end = rests, time.Now() })
		if err := hold.Unlock(); err != nil {
			return err
		}
		time.Sleep(who.rest.randomly())
	}
}

// note changes what mu guards.
func (a *arena) note(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// tally is what is counted, for the reader. mu is held.
func (a *arena) tally() string {
	if a.together {
		return fmt.Sprintf("at most %d at once", most(a.spans))
	}
	return fmt.Sprintf("%13s", text.Count(a.changes(), "change"))
}

// changes counts how often the lock went from one actor to another.
func (a *arena) changes() (n int) {
	for i := 1; i < len(a.spans); i++ {
		if a.spans[i].actor != a.spans[i-1].actor {
			n++
		}
	}
	return n
}

// line says how things stand.
func (a *arena) line() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	width := len(a.who(rests, waits, holds))
	return fmt.Sprintf("%s  inside: %-*s  waiting: %-*s  %s", seconds(time.Since(a.began)),
		width, a.who(holds), width, a.who(waits), a.tally())
}

// who are the short names of those who do one of these.
func (a *arena) who(do ...doing) string {
	names := make([]string, 0, len(a.actors))
	for i, actor := range a.actors {
		if slices.Contains(do, a.now[i]) {
			names = append(names, actor.short)
		}
	}
	return cmp.Or(strings.Join(names, " "), "nobody")
}

// picture has a row for each actor and a column for each frame, the last ones if there is no room for all. Two rows share
// a column only if two actors were inside at once.
func (s *show) picture(a *arena) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	columns := max(8, s.Stage.width()-18)
	rows := make([]string, 0, len(a.actors)+1)
	for i, who := range a.actors {
		cell := "·"
		if a.now[i] == holds {
			cell = "█"
		}
		a.past[i] += cell
		shown := []rune(a.past[i])
		shown = shown[max(0, len(shown)-columns):]
		rows = append(rows, fmt.Sprintf("%-8s  %s  %s", who.name, s.Stage.mark(marked[a.now[i]], string(a.now[i])), string(shown)))
	}
	return append(rows, "█ inside the lock   "+strings.TrimLeft(a.tally(), " "))
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

// everybody must be alone.
func everybody(int) bool { return true }

// most is the greatest number of stays at one time.
func most(spans []span) (n int) {
	for _, x := range spans {
		// It changes for the worse only when a stay begins.
		now := 0
		for _, y := range spans {
			if !y.start.After(x.start) && (y.end.IsZero() || y.end.After(x.start)) {
				now++
			}
		}
		n = max(n, now)
	}
	return n
}
