package driverkit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/list"
)

// Call is a call on its way. Whoever sends it ends it, once.
type Call struct {
	driver.Call

	Deadline time.Time // of its context; zero: none

	group *Group
	state atomic.Int32
	ended chan struct{} // has one when the call has ended, and its caller is there
	reply any           // set before state is ended
	err   error

	// Guarded by Group.mu.
	place list.Node[*Call] // in the queue
	batch *batch           // that it was taken into; nil: it is queued
}

// The states of a call, as its caller sees them.
const (
	awaited int32 = iota // its caller is there
	left                 // its caller has left
	ended
)

// newCall returns a call whose caller is there.
func (g *Group) newCall(ctx context.Context, call driver.Call) *Call {
	c, ok := g.unused.Get().(*Call)
	if !ok {
		c = &Call{ended: make(chan struct{}, 1)}
		c.group, c.place.Value = g, c
	}
	c.Call, c.batch = call, nil
	c.Deadline, _ = ctx.Deadline()
	c.state.Store(awaited)
	return c
}

// End says what came of the call. It does not block, and the call is not to be touched
// after it.
func (c *Call) End(reply any, err error) {
	g, b, late := c.group, c.batch, c.Late
	g.heard(err)
	b.unended.Add(-1)
	c.reply, c.err = reply, err
	switch {
	case c.state.CompareAndSwap(awaited, ended):
		c.ended <- struct{}{}
		g.awaitedLess(b)
	case late != nil:
		late.Tell(reply, err)
	}
}

// await waits for the outcome of a call, or for ctx to end.
func (g *Group) await(ctx context.Context, c *Call) (any, error) {
	select {
	case <-c.ended:
		return g.taken(c)
	case <-ctx.Done():
	}
	if g.withdraw(c) {
		return nil, driver.ConnectionError(ctx.Err(), true)
	}
	if !c.state.CompareAndSwap(awaited, left) {
		<-c.ended
		return g.taken(c)
	}
	g.awaitedLess(c.batch)
	err := driver.ConnectionError(ctx.Err(), false)
	err.Pending = c.Late != nil
	return nil, err
}

// taken returns the outcome of a call that has ended, whose memory nobody else uses any more.
func (g *Group) taken(c *Call) (any, error) {
	reply, err := c.reply, c.err
	c.Call, c.reply, c.err = driver.Call{}, nil, nil
	g.unused.Put(c)
	return reply, err
}
