package driverkit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/list"
)

// Call is a call in a batch. A [Group] makes it, and passes it to the adapter's send function,
// which ends it with [Call.End], exactly once. Until then the adapter may read its fields. Late
// is the group's own: the adapter does not tell it.
type Call struct {
	driver.Call

	// Deadline is the deadline of the caller's context; zero: none. The caller leaves then. A
	// client may use it to bound a call; the group does not.
	Deadline time.Time

	group *Group
	state atomic.Int32
	ended chan struct{} // receives a value when the call has ended and its caller waits
	reply any           // set before state is ended
	err   error

	// Guarded by Group.mu.
	place list.Node[*Call] // in the queue
	batch *batch           // that has the call; nil while it is queued
}

// The states of a call, as its caller sees them.
const (
	awaited   int32 = iota // the caller waits, and the call is not sent yet
	sent                   // the caller waits
	withdrawn              // the caller has left before the call was sent
	left                   // the caller has left later
	ended
)

// Sending notes that the call is about to be sent. It reports false if the caller has left, and was told that nothing is
// sent: then the adapter must not send the call, but ends it. The adapter calls it as late as it can, and before each
// repetition.
func (c *Call) Sending() bool {
	return c.state.CompareAndSwap(awaited, sent) || c.state.Load() != withdrawn
}

// End ends the call: its caller gets reply and err, or Late does if the caller has left. They are
// what [driver.Driver]'s Eval would return: err is nil or a [*driver.Error]. End may be called on
// any goroutine, also after the send function has returned. It does not block. The adapter does not
// touch the call after it: its memory may be another call's.
func (c *Call) End(reply any, err error) {
	g, b, late := c.group, c.batch, c.Late
	g.noteReply(b.epoch.Load(), err)
	b.unended.Add(-1)
	c.reply, c.err = reply, err
	switch {
	case c.state.CompareAndSwap(sent, ended), c.state.CompareAndSwap(awaited, ended):
		c.ended <- struct{}{}
		g.awaitedLess(b)
	case late != nil && c.state.Load() == left:
		late.Tell(reply, err)
	}
}

// await waits for the result of a call, or for ctx to end.
func (c *Call) await(ctx context.Context) (any, error) {
	g := c.group
	select {
	case <-c.ended:
		return c.result()
	case <-ctx.Done():
	}
	if g.withdraw(c) {
		return nil, driver.ConnectionError(ctx.Err(), true)
	}
	if c.state.CompareAndSwap(awaited, withdrawn) {
		g.noteSilence(c.batch) // to have no connection for long is to wait for a dead one, perhaps
		g.awaitedLess(c.batch)
		return nil, driver.ConnectionError(ctx.Err(), true)
	}
	if !c.state.CompareAndSwap(sent, left) {
		<-c.ended
		return c.result()
	}
	g.noteSilence(c.batch)
	g.awaitedLess(c.batch)
	err := driver.ConnectionError(ctx.Err(), false)
	err.Pending = c.Late != nil
	return nil, err
}

// result returns the result of a call that has ended, and frees its memory.
func (c *Call) result() (any, error) {
	reply, err := c.reply, c.err
	c.Call, c.reply, c.err = driver.Call{}, nil, nil
	c.group.unused.Put(c)
	return reply, err
}
