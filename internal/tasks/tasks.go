// Package tasks counts what a client has under way, so that Close can wait for
// it: the calls of its users and the goroutines of its own.
package tasks

import (
	"context"
	"sync"
)

// Group counts tasks. The zero Group is ready for use.
type Group struct {
	mu      sync.Mutex
	running int
	closed  bool          // no task may begin any more
	idle    chan struct{} // closed when running falls to 0; nil if nobody waits
}

// Begin counts one task more, until End. It reports false, and counts nothing,
// once Wait has found the group idle.
func (g *Group) Begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

// End counts one task less.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
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

// Wait waits until no task is running, and lets none begin after that. It
// returns the context's error if ctx ends first; tasks may then still begin.
func (g *Group) Wait(ctx context.Context) error {
	for {
		idle, done := g.closeIfIdle()
		if done {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closeIfIdle closes an idle group, or returns what to wait for.
func (g *Group) closeIfIdle() (idle <-chan struct{}, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		g.closed = true
		return nil, true
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle, false
}
