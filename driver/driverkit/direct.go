package driverkit

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// prompt is how soon a server answers that is not taken for one that has fallen silent.
	prompt = 100 * time.Millisecond
	// LongestAlone is how long a caller who sends its call itself waits for the reply: it
	// cannot leave before.
	LongestAlone = 500 * time.Millisecond
)

// Alone sends a call on the goroutine of its caller. At the end at the latest it gives the
// call up, and whatever the reply may still come by. It may return [ErrNotRun].
type Alone func(ctx context.Context, end time.Time, call driver.Call) (any, error)

// ErrNotRun says that a server has refused a call that was sent alone, and that send knows
// what to do about it.
var ErrNotRun = errors.New("the server has not run the script")

// beginAlone reports whether a caller may send its call itself: nothing else is under way,
// and the server is there. If so, evalAlone follows.
func (g *Group) beginAlone() bool {
	if g.alone == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.answers.Load() || g.busy || len(g.underWay) > 0 || g.queue.Len() > 0 {
		return false
	}
	g.busy = true
	return true
}

// evalAlone is Eval on the caller's goroutine.
func (g *Group) evalAlone(ctx context.Context, call driver.Call) (any, error) {
	start := time.Now()
	end := start.Add(LongestAlone)
	if due, ok := ctx.Deadline(); ok && due.Before(end) {
		end = due
	}
	reply, err := g.alone(ctx, end, call)
	g.endAlone(err, start)
	return reply, err
}

func (g *Group) endAlone(err error, start time.Time) {
	g.heard(err)
	if time.Since(start) > prompt {
		g.answers.Store(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy, g.used = false, start
}

// heard notes whether the server has answered a call. If not, a connection may have to be made,
// which callers do not wait for themselves.
func (g *Group) heard(err error) {
	var failed *driver.Error
	answers := !errors.As(err, &failed) || failed.Code != ""
	if g.answers.Load() != answers {
		g.answers.Store(answers)
	}
}
