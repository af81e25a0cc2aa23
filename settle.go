package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// This file brings Redis to the state that is wanted: at Unlock, and in the
// background after a call whose outcome is unknown. What is wanted is always
// the same, as many holds as are handed out, so it can be asked for at any time.

// giveBack brings the count in Redis down to what is wanted. The caller has
// taken op; giveBack frees it, now or once nothing old can interfere any more.
func (t *tenure) giveBack(ctx context.Context) error {
	c := t.kind.client
	count, onServer := t.wanted()
	if onServer <= count {
		c.settle(t, nil, false) // another Unlock of this owner has done it
		return nil
	}
	o := c.order(ctx, t.kind.askRelease(t.owner, count))
	if o.err != nil {
		c.settle(t, o.unknown, true)
		return o.backendError("release", t.kind.name)
	}
	defer c.settle(t, o.unknown, false)
	if o.answer.Code == script.Refused && len(o.unknown) == 0 {
		// Nobody but us could have released it, and we have not.
		const reason = "the server says that it was not held any more"
		t.lose(reason)
		return &LostError{Name: t.kind.name, Reason: reason}
	}
	t.mu.Lock()
	t.onServer = count
	t.mu.Unlock()
	return nil
}

// releaseLater gives back in the background what is not wanted, once op is free.
func (c *Client) releaseLater(t *tenure) {
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		if t.takeOp(c.life) == nil {
			c.settle(t, nil, true)
		}
	}) {
		t.unref()
	}
}

// settle frees op once nothing that was asked for earlier can take effect any
// more. unknown are sends whose outcome nobody knows: an acquire that was given
// up, or one before the send that was answered. What they may have done beyond
// what is wanted is undone. release says to do so whatever came of them.
//
// It returns at once; what there is to wait for is waited for in the background,
// and bounded: by the calls' own limits, and by the lease if Redis is away.
func (c *Client) settle(t *tenure, unknown []*flight, release bool) {
	if len(unknown) == 0 && !release {
		t.freeOp()
		return
	}
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		defer t.freeOp()
		c.settling(t, unknown, release)
	}) {
		t.freeOp()
		t.unref()
	}
}

// settling is settle's goroutine.
func (c *Client) settling(t *tenure, unknown []*flight, release bool) {
	var until time.Time
	for _, f := range unknown {
		ran, over := c.outcomeOf(f)
		release = release || ran
		if over.After(until) {
			until = over
		}
	}
	if release {
		c.insist(t)
	}
	if wait := time.Until(until); wait > 0 {
		// A call that was held up may still arrive; only then is it certain.
		sleep(c.life, wait)
		c.insist(t)
	}
}

// outcomeOf waits until it is known what came of a flight: whether it may have
// had an effect, and until when it may have one still, if so.
func (c *Client) outcomeOf(f *flight) (ran bool, over time.Time) {
	timer := time.NewTimer(time.Until(f.over))
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
		return true, f.over
	case <-c.life.Done():
		return true, f.over
	}
	switch {
	case f.err == nil:
		return f.answer.Code == script.Done, time.Time{}
	case mayHaveRun(f.err):
		return true, f.over
	default:
		return false, time.Time{}
	}
}

// insist asks for the wanted count until Redis answers or nothing can be left
// there: the lease has ended. Op is held.
func (c *Client) insist(t *tenure) {
	end := time.Now().Add(c.config.lease + c.config.timeout)
	for {
		count, _ := t.wanted()
		o := c.order(c.life, t.kind.askRelease(t.owner, count))
		if o.err == nil {
			t.mu.Lock()
			t.onServer = min(t.onServer, count)
			t.mu.Unlock()
			return
		}
		if !o.worthRepeating() || c.closing.Err() != nil || time.Now().After(end) {
			c.failed(t.kind.name, t.owner, o.backendError("release", t.kind.name))
			return
		}
	}
}

// evict gives back every hold of the tenure because the client closes.
func (t *tenure) evict() {
	t.mu.Lock()
	evicted := len(t.holds)
	for h := range t.holds {
		h.ended = problem(t.kind.name, "it was given back then", ErrClosed)
		h.cancel(ErrClosed)
		delete(t.holds, h)
	}
	t.endWatch()
	t.mu.Unlock()
	if evicted == 0 {
		return
	}
	c := t.kind.client
	c.releaseLater(t)
	for range evicted {
		t.unref() // each hold had one
	}
}
