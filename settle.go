package holdfast

import (
	"cmp"
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
	ask := t.kind.release(t.owner, ch.from, ch.to)
	o := c.order(ctx, ask)
	if codeOf(o.err) == wrongType { // somebody has overwritten it
		t.vanished()
		c.settle(t, matter{unknown: o.unknown})
		return &LostError{Name: t.kind.name, Reason: "its name is another kind of object now"}
	}
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
	return cmp.Or(t.lostBefore(deadline), o.untold(t.kind.name, ask))
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
	ran, loose := c.outcomesOf(m.unknown)
	defer func() {
		c.outlast(c.life, loose)
		if len(m.unknown) > 0 {
			c.depart(t, m.leave) // a refused one, too, may have come back to the line
		}
	}()
	for ran || m.release {
		if ran {
			t.mayHave(m.stood)
		}
		asked, unknown := c.insist(t)
		_, more := c.outcomesOf(unknown)
		loose = append(loose, more...)
		// The answer has told what time it is there, and so when this is over.
		over := c.over(loose)
		if !ran || asked.IsZero() || !asked.Before(over) {
			return
		}
		// A send that was held up may still arrive. Only after its limit is it
		// certain that what is asked for then is the last word. If that is far off,
		// what has come until then is given back.
		c.nap(c.life, over)
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
	var unknown []*flight
	defer func() { c.outlast(c.life, unknown) }()
	for end := time.Now().Add(reservation); c.life.Err() == nil; {
		o := c.order(c.life, leave)
		unknown = append(unknown, o.unknown...)
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
// whether any may have had an effect, and those that may have one still.
func (c *Client) outcomesOf(flights []*flight) (ran bool, loose []*flight) {
	for _, f := range flights {
		fRan, fLoose := c.outcomeOf(f)
		ran = ran || fRan
		if fLoose {
			loose = append(loose, f)
		}
	}
	return ran, loose
}

// outcomeOf waits until it is known what came of a flight: whether it may have
// had an effect, and whether it may have one still.
func (c *Client) outcomeOf(f *flight) (ran, loose bool) {
	timer := time.NewTimer(time.Until(earlier(f.over(), f.due())))
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
		return true, true
	case <-c.life.Done():
		return true, true
	}
	if f.err == nil {
		return f.answer.Code == script.Done, false
	}
	ran = mayHaveRun(f.err)
	return ran, ran && codeOf(f.err) == "" // what a server has refused is over
}

// over is when the last of the flights can have no more effect, as far as that is
// known now. Close does not wait for a clock that is far off.
func (c *Client) over(flights []*flight) (last time.Time) {
	for _, f := range flights {
		over := f.over()
		if c.closing.Err() != nil {
			over = earlier(over, f.due())
		}
		if over.After(last) {
			last = over
		}
	}
	return last
}

// outlast waits until none of the flights can have an effect any more, or ctx
// ends.
func (c *Client) outlast(ctx context.Context, flights []*flight) {
	_, loose := c.outcomesOf(flights)
	for ctx.Err() == nil && time.Now().Before(c.over(loose)) {
		c.nap(ctx, c.over(loose))
	}
}

// nap waits until flights are over, or it is time to ask again when that is: what
// is known of the server's clock may have changed, or Close has begun.
func (c *Client) nap(ctx context.Context, over time.Time) {
	ctx, cancel := context.WithDeadline(ctx, earlier(over, time.Now().Add(longestSleep)))
	defer cancel()
	if c.closing.Err() != nil {
		<-ctx.Done()
		return
	}
	select {
	case <-ctx.Done():
	case <-c.closing.Done():
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// insist asks for what is wanted until Redis answers or nothing can be left
// there. It returns when the answered send was sent, the zero time if it has given
// up, and its unanswered ones. Op is held.
func (c *Client) insist(t *tenure) (asked time.Time, unknown []*flight) {
	end := t.gone()
	for {
		ch, found := t.surplus()
		if !found {
			return time.Now(), unknown
		}
		ask := t.kind.release(t.owner, ch.from, ch.to)
		o := c.order(c.life, ask)
		unknown = append(unknown, o.unknown...)
		if untold := o.untold(t.kind.name, ask); untold != nil {
			c.failed(t.kind.name, t.owner, untold)
		}
		switch {
		case o.err == nil:
			t.released(o, ch)
			return o.sent, unknown
		case !o.worthRepeating() || c.closing.Err() != nil || time.Now().After(end):
			c.failed(t.kind.name, t.owner, o.backendError("release", t.kind.name))
			return time.Time{}, unknown
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
