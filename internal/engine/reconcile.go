package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file brings Redis to the state that is wanted: at Unlock, and in the background after a call whose outcome is unknown.
// The wanted state is always the same: as many counts as the holds need. So it can be asked for at any time.

// unlock gives back what is not handed out, and waits until that is done, by whoever has the turn. A lock that is found gone
// was lost, unless its deadline has passed since the hold ended.
func (s *side) unlock(was dropped) error {
	a := s.account
	if a.turn.TryTake() { // as mostly: nothing of this owner's is under way
		return s.giveBack(context.Background(), was)
	}
	ctx, cancel := WithTimeout(a.engine.Life, a.engine.Timeout)
	defer cancel()
	has, err := s.awaitExcess(ctx, was.run)
	switch {
	case err != nil: // an earlier change of this owner is not reconciled yet; this one follows it
		a.releaseLater()
		return a.engine.Errors.Backend("release", s.lock.Name, true, errBusy)
	case has:
		return s.giveBack(ctx, was)
	}
	return s.lostBefore(was)
}

// awaitExcess waits until somebody else has given back what a run does not need any more, or the caller has the turn to do
// so: then has is true. It returns the context's cause if ctx ends first.
func (s *side) awaitExcess(ctx context.Context, run *ledger.Run) (has bool, err error) {
	a := s.account
	for {
		a.mu.Lock()
		if _, excess := s.GiveBack(); s.Run() != run || !excess {
			a.mu.Unlock()
			return false, nil
		}
		if a.fewer == nil {
			a.fewer = make(chan struct{})
		}
		fewer := a.fewer
		a.mu.Unlock()
		select {
		case a.turn.Chan() <- struct{}{}:
			return true, nil
		case <-fewer:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// giveBack gives back what is not handed out. The turn is taken; giveBack frees it, now or once nothing old can interfere
// any more.
func (s *side) giveBack(ctx context.Context, was dropped) error {
	a, e := s.account, s.account.engine
	a.mu.Lock()
	ch, found := s.GiveBack()
	succeeded := s.Run() != was.run // the owner's next holds have begun, or are about to: what stands is theirs
	a.mu.Unlock()
	if !found || succeeded {
		a.freeTurn(false)
		return s.lostBefore(was)
	}
	request := s.release(ch)
	if was.cohort != nil || was.subscription != nil {
		request = protocol.CountingListeners(request, was.subscription != nil)
	}
	res := e.Calls.Do(ctx, request, nil)
	was.cohort.released(res)
	s.noteRelease(res, ch)
	if len(res.Unknown) > 0 {
		a.locked(func() { s.addInDoubt(res.Unknown, 0, true) })
	}
	switch {
	case res.Err != nil && call.Code(res.Err) == script.WrongType: // somebody has overwritten it
		s.vanished()
		a.freeTurn(false)
		return e.Errors.Lost(s.lock.Name, lockerr.Overwritten, nil)
	case res.Err != nil:
		a.freeTurn(true)
		return e.Errors.Backend("release", s.lock.Name, len(res.Unknown) > 0, ForUser(res.Why()))
	}
	a.freeTurn(false)
	told := s.lock.notAnnounced(request, res)
	if res.Reply.Code == script.Done { // what is lost since is a later hold
		return told
	}
	return cmp.Or(s.lostBefore(was), told)
}

// release is the request for a change that gives back. If MinHold keeps the lock from others for longer, an owner that
// nobody is holds it then.
func (s *side) release(ch ledger.Change) script.Request {
	a, e := s.account, s.account.engine
	a.mu.Lock()
	retained := s.Retained
	a.mu.Unlock()
	if ch.To > 0 || retained.IsZero() {
		return s.lock.Requests.Release(a.owner, ch.From, ch.To)
	}
	if rest := mono.Until(retained); rest > 0 {
		nobody := e.nobody()
		if retain := s.lock.HoldRequests().Retain(a.owner, ch.From, nobody, rest+time.Millisecond); !retain.IsZero() {
			e.retired.add(accountKey{a.name, a.namespace, nobody}, retained)
			return retain
		}
	}
	return s.lock.Requests.Release(a.owner, ch.From, ch.To)
}

// noteRelease puts the answer to a release into effect.
func (s *side) noteRelease(res call.Result, ch ledger.Change) {
	s.account.mu.Lock()
	s.account.failure = nil
	if res.Err != nil {
		s.account.failure = ForUser(res.Why())
		if len(res.Unknown) > 0 {
			s.Unanswered(ch)
		}
		s.account.mu.Unlock()
		return
	}
	found := ledger.Other
	if res.Has(script.Done) {
		found = ledger.Done
	} else if res.Has(script.Refused) {
		found = ledger.Missing
	}
	before := s.Possible()
	vanished := s.Released(ch, found, len(res.Unknown) > 0)
	if s.Possible() < before {
		s.account.fell()
	}
	s.account.mu.Unlock()
	if vanished {
		s.vanished()
	}
}

// lostBefore returns why the run is lost that an unlocked hold was of, if Redis had it no more before its deadline. After it,
// its lease may simply have run out, and that is no loss to a hold which has ended. The owner's next holds may have begun
// since.
func (s *side) lostBefore(was dropped) error {
	if mono.Now() >= was.trusted {
		return nil
	}
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return was.run.Taken()
}

// excess is a side of which more may stand than is handed out, and the change that gives it back; nil if there is none. mu is
// held.
func (a *account) excess() (*side, ledger.Change) {
	for s := range a.opened {
		if ch, found := s.GiveBack(); found {
			return s, ch
		}
	}
	return nil, ledger.Change{}
}

// freeTurn frees the turn once nothing that was asked for earlier can take effect any more. Release says to give back before
// what is not handed out.
//
// It returns at once; what there is to wait for is waited for in the background, and bounded: by the attempts' own limits; if
// Redis is away, by the key's end, and while a waiter leaves by protocol.PlaceLives, when its place there has expired. What
// Redis refuses to take back, though the other side lets the key live, is tried again.
func (a *account) freeTurn(release bool) {
	a.mu.Lock()
	free := a.ledger.Harmless()
	a.mu.Unlock()
	if free && !release {
		a.turn.Free()
		return
	}
	if !a.background(func() {
		var sides sync.WaitGroup
		a.locked(func() {
			for s := range a.opened {
				sides.Go(func() { s.reconcile(release) })
			}
		})
		sides.Wait()
		a.turn.Free()
		if a.standsOn() {
			a.tryAgain()
		}
	}) {
		a.turn.Free()
	}
}

// reconcile waits for the open attempts of a side, sends the leave requests that are due, and gives back what is not handed out,
// if it is to be released or an attempt may have had its effect. The turn is taken.
func (s *side) reconcile(release bool) {
	a, e, end := s.account, s.account.engine, mono.Now().Add(protocol.PlaceLives)
	a.mu.Lock()
	open, due := s.inDoubt, s.StartLeave()
	s.inDoubt = nil
	a.mu.Unlock()
	var leaving sync.WaitGroup
	if due {
		leaving.Go(func() { s.leave(end) }) // beside the release: neither waits for the other's answers
	}
	ran, pending := e.Calls.Outcomes(e.Life, open)
	defer func() {
		e.Calls.Outlast(e.Life, pending)
		leaving.Wait()
		a.locked(func() { due = s.StartLeave() })
		if due {
			s.leave(end)
		}
	}()
	defer a.locked(s.CloseAll)
	for ran || release {
		if ran {
			a.locked(s.Ran)
		}
		asked, unknown := s.releaseExcess()
		_, more := e.Calls.Outcomes(e.Life, unknown)
		pending = append(pending, more...)
		// The answer has told what time it is there, and so when the limits have passed.
		end := e.Calls.Expiry(pending)
		if !ran || asked.IsZero() || asked >= end {
			return
		}
		// A delayed attempt may still arrive. Only after its limit is it certain that what is asked for then is the last
		// word. If that is far off, what has come until then is given back.
		e.Calls.SleepUntil(e.Life, end)
		if e.Life.Err() != nil {
			return
		}
	}
}

// leave removes from Redis what it keeps for a waiter that has given up. It does not try again after end.
func (s *side) leave(end mono.Time) {
	e, owner := s.account.engine, s.account.owner
	if e.Life.Err() != nil {
		return
	}
	request := s.lock.Requests.Leave(owner)
	_, unknown := s.lock.repeat(owner, "leave", end, func(call.Result) script.Request { return request })
	e.Calls.Outlast(e.Life, unknown)
}

// releaseExcess releases the counts that no hold needs, and repeats that until Redis answers or the key has expired. It
// returns when the answered attempt was sent (now if there was nothing to release, zero if it gave up), and the unanswered
// attempts. The turn is taken.
func (s *side) releaseExcess() (asked mono.Time, unknown []*call.Attempt) {
	a := s.account
	var ch ledger.Change
	found := false
	res, unknown := s.lock.repeat(a.owner, "release", s.keyGoneBy(), func(last call.Result) (request script.Request) {
		if last.Err != nil {
			s.noteRelease(last, ch)
		}
		a.locked(func() { ch, found = s.GiveBack() })
		if found {
			request = s.release(ch)
		}
		return request
	})
	if !found {
		return mono.Now(), unknown
	}
	if s.noteRelease(res, ch); res.Err != nil {
		return 0, unknown
	}
	return res.Sent, unknown
}

// keyGoneBy is when the key will have expired even if nobody releases it, at least a lease from now: a release is repeated
// until then.
func (s *side) keyGoneBy() mono.Time {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return max(s.account.ledger.KeyEnd(), mono.Now().Add(s.account.engine.Lease))
}

// standsOn reports whether what could not be given back of one side does not end with its lease, since the other lets the key
// live.
func (a *account) standsOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		if _, excess := s.GiveBack(); excess && s.other() != nil && mono.Now() < s.other().End() {
			return true
		}
	}
	return false
}

// tryAgain tries to give back what Redis has refused to take, a third of the client's lease later, or at once if the client
// closes. One such try is to come at a time, however many holds have been dropped.
func (a *account) tryAgain() {
	e := a.engine
	a.mu.Lock()
	begun := a.retries
	a.retries = true
	a.mu.Unlock()
	if begun || e.Closing.Err() != nil { // when it closes, it was tried since
		return
	}
	a.background(func() {
		call.Sleep(e.Closing, e.Lease/3)
		a.locked(func() { a.retries = false })
		a.releaseLater()
	})
}

// evict gives back every hold of the owner because the client closes. It reports whether there was one.
func (a *account) evict() bool {
	counts := 0
	a.mu.Lock()
	for s := range a.opened {
		holds, had := s.DropAll()
		counts += had
		for _, h := range holds {
			h.Value.ended = evicted
			h.Value.end(lockerr.Closed)
			if h.Lost == nil && h.Value.Observer != nil { // else lose has told it
				h.Value.Observer.Ended(h.Value.err())
			}
		}
		s.endWatch()
	}
	a.mu.Unlock()
	if counts == 0 {
		return false
	}
	a.releaseLater()
	for range counts {
		a.unref()
	}
	return true
}

// owes returns the end of the key's lease, and why counts are still unreleased. The error is nil if none are, or if the lease has
// ended. Unless Redis refused the release, it did not reply in time.
func (a *account) owes() (until mono.Time, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until = a.ledger.KeyEnd(); mono.Now() >= until {
		return until, nil
	}
	for s := range a.opened {
		if _, excess := s.GiveBack(); excess {
			switch {
			case a.failure == nil: // the time was too short for a release
				return until, context.DeadlineExceeded
			case call.Code(a.failure) == "":
				return until, fmt.Errorf("%w: %w", context.DeadlineExceeded, a.failure)
			}
			return until, fmt.Errorf("%w: %w", ErrKept, a.failure)
		}
	}
	return until, nil
}
