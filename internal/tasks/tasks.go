// Package tasks counts what a client has under way, so that Close can wait for
// it: the calls of its users and the goroutines of its own.
package tasks

import (
	"context"
	"sync"
	"sync/atomic"
)

// Group counts tasks. The zero Group is ready for use.
type Group struct {
	// state is how many tasks are running, with awaited and closed as bits of it.
	state atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed when no task is running; nil if nobody waits; guarded by mu
}

const (
	closed  = 1 << 62 // no task may begin any more
	awaited = 1 << 61 // somebody waits, or has waited, for the tasks to end
)

// Begin counts one task more, until End. It reports false, and counts nothing,
// once Wait has found the group idle.
func (g *Group) Begin() bool {
	for {
		n := g.state.Load()
		if n&closed != 0 {
			return false
		}
		if g.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// End counts one task less.
func (g *Group) End() {
	if g.state.Add(-1) != awaited {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Go runs f in a goroutine that counts as a task. It reports false, and runs
// nothing, where Begin would.
func (g *Group) Go(f func()) bool {
	if !g.Begin() {
		return false
	}
	go func() {
		defer g.End()
		f()
	}()
	return true
}

// Several reports whether more than one task is running.
func (g *Group) Several() bool { return g.state.Load()&^(closed|awaited) > 1 }

// Wait waits until no task is running, and lets none begin after that. It
// returns the context's error if ctx ends first; tasks may then still begin.
func (g *Group) Wait(ctx context.Context) error {
	for {
		idle := g.awaitIdle()
		if g.state.CompareAndSwap(awaited, closed) || g.state.Load()&closed != 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitIdle returns what is closed when a task has ended and none is running. It has to be asked for before the group is found
// busy: or the last task could end between the two.
func (g *Group) awaitIdle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.Load()&closed == 0 {
		g.state.Or(awaited)
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}
