package holdfast

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
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
func (t *ownerState) unlock(ctx context.Context, deadline time.Time) error {
	has, err := t.awaitSurplus(ctx)
	switch {
	case err != nil: // an earlier change of this owner is not reconciled yet; this one follows it
		t.kind.client.releaseLater(t)
		return &BackendError{Op: "release", Name: t.kind.name, MayHaveRun: true, Err: call.ErrNoAnswer}
	case has:
		return t.giveBack(ctx, deadline)
	}
	return t.lostBefore(deadline)
}

// giveBack gives back what is not handed out. The caller has taken op; giveBack
// frees it, now or once nothing old can interfere any more.
func (t *ownerState) giveBack(ctx context.Context, deadline time.Time) error {
	c := t.kind.client
	ch, found := t.surplus()
	if !found || t.whyLost() != nil {
		c.reconcile(t, cleanup{release: found})
		return t.lostBefore(deadline)
	}
	ask := t.release(ch)
	o := c.calls.Do(ctx, ask)
	if call.Code(o.Err) == script.WrongType { // somebody has overwritten it
		t.vanished()
		c.reconcile(t, cleanup{unknown: o.Unknown})
		return &LostError{Name: t.kind.name, Reason: LostOverwritten}
	}
	if o.Err != nil {
		c.reconcile(t, cleanup{unknown: o.Unknown, release: true})
		return backendError("release", t.kind.name, o)
	}
	if o.Reply.Code == script.Refused && len(o.Unknown) == 0 {
		t.vanished() // nobody but us could have released it, and we have not
	} else {
		t.released(o, ch)
	}
	c.reconcile(t, cleanup{unknown: o.Unknown})
	return cmp.Or(t.lostBefore(deadline), untold(t.kind.name, ask, o))
}

// release is the request for a change that gives back. If [MinHold] keeps the lock from
// others for longer, an owner that nobody is holds it then.
func (t *ownerState) release(ch change) script.Request {
	c := t.kind.client
	t.mu.Lock()
	keptUntil := t.keptUntil
	t.mu.Unlock()
	if rest := time.Until(keptUntil); ch.to == 0 && rest > 0 {
		nobody := c.NewOwner()
		if keep := t.kind.lock.Keep(t.owner.String(), ch.from, nobody.String(), rest+time.Millisecond); !keep.IsZero() {
			c.retire(t.kind, nobody, keptUntil)
			return keep
		}
	}
	return t.kind.waits.Release(t.owner.String(), ch.from, ch.to)
}

// released puts the answer to a release into effect. None is held when one was
// asked to be left: it is lost. None is held when none was to be: that is so.
func (t *ownerState) released(o call.Result, ch change) {
	if o.Reply.Code == script.Done || o.Reply.Code == script.Refused && ch.to == 0 {
		t.confirmCount(ch.to)
		return
	}
	t.vanished()
}

// lostBefore returns why the holds are lost, if they were before the deadline of
// one that has been unlocked. After it, its lease may simply have run out, and
// that is no loss to a hold which has ended.
func (t *ownerState) lostBefore(deadline time.Time) error {
	if !time.Now().Before(deadline) {
		return nil
	}
	return t.whyLost()
}

// releaseLater gives back in the background what is not handed out, once op is
// free.
func (c *Client) releaseLater(t *ownerState) {
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		if t.takeOp(c.life) == nil {
			c.reconcile(t, cleanup{release: true})
		}
	}) {
		t.unref()
	}
}

// cleanup says what reconcile has to do.
type cleanup struct {
	// unknown are attempts whose result is not known. withDeferred adds those of
	// earlier acquires.
	unknown []*call.Attempt
	// stood is how many counts are ours if they took effect; what that is beyond
	// what is handed out is given back.
	stood int
	// release says to give back what is not handed out in any case.
	release bool
	// leave takes a waiter out of Redis that has given up; zero if there is none.
	leave script.Request
}

// reconcile frees op once nothing that was asked for earlier can take effect any
// more.
//
// It returns at once; what there is to wait for is waited for in the background,
// and bounded: by the attempts' own limits, and by the key's end if Redis is away.
func (c *Client) reconcile(t *ownerState, m cleanup) {
	m = t.withDeferred(m)
	if len(m.unknown) == 0 && !m.release && m.leave.IsZero() {
		t.freeOp()
		return
	}
	t.ref()
	if !c.tasks.Go(func() {
		defer t.unref()
		defer t.freeOp()
		c.reconcileInBackground(t, m)
	}) {
		t.freeOp()
		t.unref()
	}
}

// reconcileInBackground is reconcile's goroutine.
func (c *Client) reconcileInBackground(t *ownerState, m cleanup) {
	c.leaveQueue(t, m.leave)
	ran, loose := c.calls.Outcomes(m.unknown)
	defer func() {
		c.calls.Outlast(c.life, loose)
		if len(m.unknown) > 0 {
			c.leaveQueue(t, m.leave) // a refused one, too, may have come back to the queue
		}
	}()
	for ran || m.release {
		if ran {
			t.mayHave(m.stood)
		}
		asked, unknown := c.releaseSurplus(t)
		_, more := c.calls.Outcomes(unknown)
		loose = append(loose, more...)
		// The answer has told what time it is there, and so when this is over.
		over := c.calls.Over(loose)
		if !ran || asked.IsZero() || !asked.Before(over) {
			return
		}
		// A send that was held up may still arrive. Only after its limit is it
		// certain that what is asked for then is the last word. If that is far off,
		// what has come until then is given back.
		c.calls.SleepUntil(c.life, over)
		if c.life.Err() != nil {
			return
		}
	}
}

// leaveQueue removes a waiter that has given up from Redis. It stops trying after
// protocol.Reservation: by then the waiter has expired there.
func (c *Client) leaveQueue(t *ownerState, leave script.Request) {
	if leave.IsZero() {
		return
	}
	var unknown []*call.Attempt
	defer func() { c.calls.Outlast(c.life, unknown) }()
	for end := time.Now().Add(protocol.Reservation); c.life.Err() == nil; {
		o := c.calls.Do(c.life, leave)
		unknown = append(unknown, o.Unknown...)
		switch {
		case o.Err == nil:
			return
		case !o.WorthRepeating() || c.closing.Err() != nil || time.Now().After(end):
			c.failed(t.kind, t.owner, backendError("leave", t.kind.name, o))
			return
		}
	}
}

// releaseSurplus releases the counts that no hold needs, and repeats that until Redis
// answers or the key has expired. It returns when the answered attempt was sent (zero if
// it gave up), and the unanswered attempts. Op is held.
func (c *Client) releaseSurplus(t *ownerState) (asked time.Time, unknown []*call.Attempt) {
	end := t.gone()
	for {
		ch, found := t.surplus()
		if !found {
			return time.Now(), unknown
		}
		ask := t.release(ch)
		o := c.calls.Do(c.life, ask)
		unknown = append(unknown, o.Unknown...)
		if untold := untold(t.kind.name, ask, o); untold != nil {
			c.failed(t.kind, t.owner, untold)
		}
		switch {
		case o.Err == nil:
			t.released(o, ch)
			return o.Sent, unknown
		case !o.WorthRepeating() || c.closing.Err() != nil || time.Now().After(end):
			c.failed(t.kind, t.owner, backendError("release", t.kind.name, o))
			return time.Time{}, unknown
		}
	}
}

// evict gives back every hold of the owner because the client closes.
func (t *ownerState) evict() {
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
