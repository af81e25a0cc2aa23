package driverkit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// DirectTimeout is the longest time for which a caller waits that sends its call itself.
const DirectTimeout = 500 * time.Millisecond

// slowReply is the time after which a server counts as slow or silent.
const slowReply = 100 * time.Millisecond

// Direct sends a call once, on the goroutine of its caller, and returns what [driver.Driver]'s
// Eval would return, or [ErrNotRun].
//
// It waits for the reply for timeout at most, which is [DirectTimeout] or what is left until the
// deadline of ctx, and one millisecond at least. It need not return earlier when ctx is cancelled.
// Without a reply by then, it gives up the connection, so that a late reply cannot reach another
// call. A Group runs one Direct at a time.
type Direct func(ctx context.Context, timeout time.Duration, call driver.Call) (any, error)

// directWay is how callers send their calls themselves.
type directWay struct {
	send Direct // nil: workers send all calls

	// responsive is set if the last call, on whichever way, had a reply within slowReply.
	responsive atomic.Bool

	underWay bool // a caller sends its call; guarded by Group.mu
}

// ErrNotRun is what a [Direct] returns if the server has refused the call in a way that the
// adapter's send function can deal with, such as NOSCRIPT or MOVED. The script has certainly not
// run. The group then sends the call by a worker. Callers of [Group.Eval] never get this error.
var ErrNotRun = errors.New("driverkit: the server has not run the script")

// beginDirect reports whether a caller may send its call itself. If so, evalDirect follows.
func (g *Group) beginDirect() bool {
	if g.direct.send == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.direct.responsive.Load() || g.direct.underWay || len(g.underWay) > 0 || g.queue.Len() > 0 {
		return false
	}
	g.direct.underWay = true
	return true
}

// evalDirect is Eval on the caller's goroutine.
func (g *Group) evalDirect(ctx context.Context, call driver.Call) (any, error) {
	start, timeout := time.Now(), DirectTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, min(timeout, deadline.Sub(start)))
	}
	epoch := g.Doubt.Resolve(g.renew)
	reply, err := g.direct.send(ctx, timeout, call)
	g.endDirect(err, start, epoch)
	return reply, err
}

func (g *Group) endDirect(err error, start time.Time, epoch int64) {
	g.noteReply(epoch, err)
	if time.Since(start) > slowReply {
		g.direct.responsive.Store(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.direct.underWay, g.used = false, start
}

// noteReply notes whether the server has replied to a call. If not, a connection may have to be
// made, and callers do not wait for that themselves.
func (g *Group) noteReply(epoch int64, err error) {
	g.Doubt.Note(epoch, err)
	var failed *driver.Error
	replied := !errors.As(err, &failed) || failed.Code != ""
	if g.direct.responsive.Load() != replied {
		g.direct.responsive.Store(replied)
	}
}
