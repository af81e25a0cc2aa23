package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// This file brings Redis to the state that is wanted: at Unlock, and in the
// background after a call whose outcome is unknown. What is wanted is always
// the same, as many counts as holds are handed out, so it can be asked for at
// any time.

// unlock gives back what is not handed out, and waits until that is done. Whoever
// has op may do it: what it keeps op for after that concerns the next acquire only.
// A lock that is found gone was lost, unless its deadline has passed since the hold
// ended.
func (t *tenure) unlock(ctx context.Context, deadline time.Time) error {
	has, err := t.awaitSurplus(ctx)
	switch {
	case err != nil: // an earlier change of this owner is not settled yet; this one follows it
		t.kind.client.releaseLater(t)
		return &BackendError{Op: "release", Name: t.kind.name, MayHaveRun: true, Err: errNoAnswer}
	case has:
		return t.giveBack(ctx, deadline)
	}
	return t.lostBefore(deadline)
}

// giveBack gives back what is not handed out. The caller has taken op; giveBack
// frees it, now or once nothing old can interfere any more.
func (t *tenure) giveBack(ctx context.Context, deadline time.Time) error {
	c := t.kind.client
	ch, found := t.surplus()
	if !found || t.whyLost() != nil {
		c.settle(t, matter{release: found})
		return t.lostBefore(deadline)
	}
	o := c.order(ctx, t.kind.release(t.owner, ch.from, ch.to))
	if o.err != nil {
		c.settle(t, matter{unknown: o.unknown, release: true})
		return o.backendError("release", t.kind.name)
	}
	if o.answer.Code == script.Refused && len(o.unknown) == 0 {
		t.vanished() // nobody but us could have released it, and we have not
	} else {
		t.released(o, ch)
	}
	c.settle(t, matter{unknown: o.unknown})
	return t.lostBefore(deadline)
}

// released puts the answer to a release into effect. None is held when one was
// asked to be left: it is lost. None is held when none was to be: that is so.
func (t *tenure) released(o outcome, ch change) {
	if o.answer.Code == script.Done || o.answer.Code == script.Refused && ch.to == 0 {
		t.settled(ch.to)
		return
	}
	t.vanished()
}

// lostBefore returns why the holds are lost, if they were before the deadline of
// one that has been unlocked. After it, its lease may simply have run out, and
// that is no loss to a hold which has ended.
func (t *tenure) lostBefore(deadline time.Time) error {
	if !time.Now().Before(deadline) {
		return nil
	}
	return t.whyLost()
}

// releaseLater gives back in the background what is not handed out, once op is
// free.
func (c *Client) releaseLater(t *tenure) {
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		if t.takeOp(c.life) == nil {
			c.settle(t, matter{release: true})
		}
	}) {
		t.unref()
	}
}

// matter is what there is to settle.
type matter struct {
	// unknown are sends whose outcome nobody knows, beside those that were
	// postponed until now.
	unknown []*flight
	// stood is how many counts are ours if they took effect; what that is beyond
	// what is handed out is given back.
	stood int
	// release says to give back what is not handed out in any case.
	release bool
	// leave takes a waiter out of Redis that has given up; zero if there is none.
	leave request
}

// settle frees op once nothing that was asked for earlier can take effect any
// more.
//
// It returns at once; what there is to wait for is waited for in the background,
// and bounded: by the sends' own limits, and by the key's end if Redis is away.
func (c *Client) settle(t *tenure, m matter) {
	m = t.postponed(m)
	if len(m.unknown) == 0 && !m.release && m.leave.script == nil {
		t.freeOp()
		return
	}
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		defer t.freeOp()
		c.settling(t, m)
	}) {
		t.freeOp()
		t.unref()
	}
}

// settling is settle's goroutine.
func (c *Client) settling(t *tenure, m matter) {
	c.depart(t, m.leave)
	ran, over := c.outcomesOf(m.unknown)
	if len(m.unknown) > 0 {
		defer func() {
			sleep(c.life, time.Until(over))
			c.depart(t, m.leave) // a refused one, too, may have come back to the line
		}()
	}
	for ran || m.release {
		if ran {
			t.mayHave(m.stood)
		}
		if asked := c.insist(t); !ran || !asked.Before(over) {
			return
		}
		// A send that was held up may still arrive. Only after its limit is it
		// certain that what is asked for then is the last word.
		sleep(c.life, time.Until(over))
		if c.life.Err() != nil {
			return
		}
	}
}

// depart takes a waiter that has given up out of Redis. If Redis is away for so
// long that nobody believes in the waiter any more, it need not be told.
func (c *Client) depart(t *tenure, leave request) {
	if leave.script == nil {
		return
	}
	for end := time.Now().Add(reservation); c.life.Err() == nil; {
		o := c.order(c.life, leave)
		_, over := c.outcomesOf(o.unknown)
		sleep(c.life, time.Until(over))
		switch {
		case o.err == nil:
			return
		case !o.worthRepeating() || c.closing.Err() != nil || time.Now().After(end):
			c.failed(t.kind.name, t.owner, o.backendError("leave", t.kind.name))
			return
		}
	}
}

// outcomesOf waits until it is known what came of each flight, and returns
// whether any may have had an effect, and until when one may have it still.
func (c *Client) outcomesOf(flights []*flight) (ran bool, over time.Time) {
	for _, f := range flights {
		fRan, fOver := c.outcomeOf(f)
		ran = ran || fRan
		if fOver.After(over) {
			over = fOver
		}
	}
	return ran, over
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

// insist asks for what is wanted until Redis answers or nothing can be left
// there. It returns when the answered send was sent, and only after no other
// send of its own can have an effect. Op is held.
func (c *Client) insist(t *tenure) (asked time.Time) {
	var unknown []*flight
	defer func() {
		_, over := c.outcomesOf(unknown)
		sleep(c.life, time.Until(over))
	}()
	end := t.gone()
	for {
		ch, found := t.surplus()
		if !found {
			return time.Now()
		}
		o := c.order(c.life, t.kind.release(t.owner, ch.from, ch.to))
		unknown = append(unknown, o.unknown...)
		switch {
		case o.err == nil:
			t.released(o, ch)
			return o.sent
		case !o.worthRepeating() || c.closing.Err() != nil || time.Now().After(end):
			c.failed(t.kind.name, t.owner, o.backendError("release", t.kind.name))
			return time.Now()
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
	t.kind.client.releaseLater(t)
	for range evicted {
		t.unref() // each hold had one
	}
}
