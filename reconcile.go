package holdfast

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file brings Redis to the state that is wanted: at Unlock, and in the
// background after a call whose outcome is unknown. What is wanted is always
// the same, as many counts as holds are handed out, so it can be asked for at
// any time.

// unlock gives back what is not handed out, and waits until that is done. Whoever
// has changeSem may do it: what it is kept for after that concerns the next acquire only.
// A lock that is found gone was lost, unless its deadline has passed since the hold
// ended.
func (s *ownerState) unlock(left departure) error {
	if s.tryChangeSem() { // as mostly: nothing of this owner's is under way
		return s.giveBack(context.Background(), left)
	}
	ctx, cancel := s.kind.client.withinTimeout(s.kind.client.life)
	defer cancel()
	has, err := s.awaitSurplus(ctx, left.run)
	switch {
	case err != nil: // an earlier change of this owner is not reconciled yet; this one follows it
		s.releaseLater()
		return &BackendError{Op: "release", Name: s.kind.name, MayHaveRun: true, Err: errBusy}
	case has:
		return s.giveBack(ctx, left)
	}
	return s.lostBefore(left)
}

// giveBack gives back what is not handed out. The caller has taken changeSem; giveBack
// frees it, now or once nothing old can interfere any more.
func (s *ownerState) giveBack(ctx context.Context, left departure) error {
	c := s.kind.client
	ch, found := s.surplus()
	if !found || s.isOver(left.run) {
		s.reconcile(cleanup{})
		return s.lostBefore(left)
	}
	request := s.release(ch)
	if left.cohort != nil {
		request = protocol.CountingListeners(request)
	}
	res := c.calls.Do(ctx, request)
	left.cohort.released(res)
	s.released(res, ch)
	if res.Err != nil && call.Code(res.Err) == script.WrongType { // somebody has overwritten it
		s.vanished()
		s.reconcile(cleanup{unknown: res.Unknown})
		return &LostError{Name: s.kind.name, Reason: LostOverwritten}
	}
	if res.Err != nil {
		s.reconcile(cleanup{unknown: res.Unknown, release: true})
		return backendError("release", s.kind.name, res)
	}
	s.reconcile(cleanup{unknown: res.Unknown})
	if res.Reply.Code == script.Done { // what is lost since is a later hold
		return notAnnounced(s.kind.name, request, res)
	}
	return cmp.Or(s.lostBefore(left), notAnnounced(s.kind.name, request, res))
}

// release is the request for a change that gives back. If [MinHold] keeps the lock from
// others for longer, an owner that nobody is holds it then.
func (s *ownerState) release(ch change) script.Request {
	c := s.kind.client
	s.mu.Lock()
	retainedUntil := s.retainedUntil
	s.mu.Unlock()
	if rest := mono.Until(retainedUntil); ch.to == 0 && rest > 0 {
		nobody := c.NewOwner()
		if retain := s.kind.lock().Retain(s.owner.String(), ch.from, nobody.String(), rest+time.Millisecond); !retain.IsZero() {
			c.retired.add(s.kind, nobody, retainedUntil)
			return retain
		}
	}
	return s.kind.requests.Release(s.owner.String(), ch.from, ch.to)
}

// released puts the answer to a release into effect. Refused, the lock is gone: it was lost if some
// count was to be left, or one was confirmed and no attempt of this release can have taken it. Without an answer,
// it may have been taken.
func (s *ownerState) released(res call.Result, ch change) {
	if res.Err != nil {
		if len(res.Unknown) > 0 {
			s.mu.Lock()
			s.confirmed = min(s.confirmed, ch.to)
			s.mu.Unlock()
		}
		return
	}
	if res.Reply.Code == script.Done || res.Reply.Code == script.Refused && ch.to == 0 && (ch.confirmed == 0 || len(res.Unknown) > 0) {
		s.confirmCount(ch.to)
		return
	}
	s.vanished()
}

// lostBefore returns why the run of holds is lost that an unlocked one was of, if Redis had it no more before its
// deadline. After it, its lease may simply have run out, and that is no loss to a hold which has ended. The owner's
// next holds may have begun since.
func (s *ownerState) lostBefore(left departure) error {
	if mono.Now() >= left.deadline {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return left.run.taken
}

// isOver reports whether the owner's next holds have begun, or are about to: what stands is theirs.
func (s *ownerState) isOver(run *holdRun) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != run
}

// releaseLater gives back in the background what is not handed out, once
// changeSem is free.
func (s *ownerState) releaseLater() {
	c := s.kind.client
	s.ref()
	if !c.tasks.Go(func() {
		defer s.unref()
		if s.takeChangeSem(c.life) == nil {
			s.reconcile(cleanup{release: true})
		}
	}) {
		s.unref()
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

// and is what both have to do.
func (c cleanup) and(other cleanup) cleanup {
	c.unknown = slices.Concat(c.unknown, other.unknown)
	c.stood = max(c.stood, other.stood)
	c.release = c.release || other.release
	if !other.leave.IsZero() {
		c.leave = other.leave
	}
	return c
}

// reconcile frees changeSem once nothing that was asked for earlier can take effect any
// more.
//
// It returns at once; what there is to wait for is waited for in the background,
// and bounded: by the attempts' own limits; if Redis is away, by the key's end, and while a waiter leaves by
// protocol.PlaceLives, when its place there has expired. What Redis
// refuses to take back, though the other side lets the key live, is left to releaseAgain.
func (s *ownerState) reconcile(todo cleanup) {
	todo = s.withDeferred(todo)
	if len(todo.unknown) == 0 && !todo.release && todo.leave.IsZero() {
		s.freeChangeSem()
		return
	}
	s.ref()
	if !s.kind.client.tasks.Go(func() {
		defer s.unref()
		s.reconcileInBackground(todo)
		s.freeChangeSem()
		if s.standsBesideOtherSide() {
			s.releaseAgain()
		}
	}) {
		s.freeChangeSem()
		s.unref()
	}
}

// reconcileInBackground is reconcile's goroutine.
func (s *ownerState) reconcileInBackground(todo cleanup) {
	c, end := s.kind.client, mono.Now().Add(protocol.PlaceLives)
	var leaving sync.WaitGroup
	leaving.Go(func() { s.leaveRedis(todo.leave, end) }) // beside the release: neither waits for the other's answers
	ran, pending := c.calls.Outcomes(c.life, todo.unknown)
	defer func() {
		c.calls.Outlast(c.life, pending)
		leaving.Wait()
		if len(todo.unknown) > 0 {
			s.leaveRedis(todo.leave, end) // a refused attempt may have put it back
		}
	}()
	for ran || todo.release {
		if ran {
			s.mayHave(todo.stood)
		}
		asked, unknown := s.releaseSurplus()
		_, more := c.calls.Outcomes(c.life, unknown)
		pending = append(pending, more...)
		// The answer has told what time it is there, and so when the limits have passed.
		end := c.calls.Expiry(pending)
		if !ran || asked.IsZero() || !asked.Before(end) {
			return
		}
		// A delayed attempt may still arrive. Only after its limit is it
		// certain that what is asked for then is the last word. If that is far off,
		// what has come until then is given back.
		c.calls.SleepUntil(c.life, end)
		if c.life.Err() != nil {
			return
		}
	}
}

// leaveRedis takes a waiter that has given up out of Redis. It does not try again after end.
func (s *ownerState) leaveRedis(leave script.Request, end mono.Time) {
	c := s.kind.client
	if leave.IsZero() || c.life.Err() != nil {
		return
	}
	_, unknown := repeat(s.kind, s.owner, "leave", end, func(call.Result) script.Request { return leave })
	c.calls.Outlast(c.life, unknown)
}

// releaseSurplus releases the counts that no hold needs, and repeats that until Redis
// answers or the key has expired. It returns when the answered attempt was sent (now if there was nothing
// to release, zero if it gave up), and the unanswered attempts. changeSem is held.
func (s *ownerState) releaseSurplus() (asked time.Time, unknown []*call.Attempt) {
	var ch change
	found := false
	res, unknown := repeat(s.kind, s.owner, "release", s.keyGoneBy(), func(last call.Result) (request script.Request) {
		if last.Err != nil {
			s.released(last, ch)
		}
		if ch, found = s.surplus(); found {
			request = s.release(ch)
		}
		return request
	})
	if !found {
		return time.Now(), unknown
	}
	if s.released(res, ch); res.Err != nil {
		return time.Time{}, unknown
	}
	return res.Sent, unknown
}

// repeat sends what next returns until Redis answers, end has passed, or there is nothing
// more to send; next is told what became of the last one. What goes wrong is told to the
// hooks. The attempts are those that were not answered.
func repeat(
	k *kind, owner Owner, op string, end mono.Time, next func(last call.Result) script.Request,
) (res call.Result, unknown []*call.Attempt) {
	c := k.client
	for request := next(res); !request.IsZero(); request = next(res) {
		res = c.calls.Do(c.life, request)
		unknown = append(unknown, res.Unknown...)
		if err := notAnnounced(k.name, request, res); err != nil {
			c.failed(k, owner, err)
		}
		if res.Err == nil {
			break
		}
		if !res.WorthRepeating() || c.closing.Err() != nil || mono.Now() > end {
			c.failed(k, owner, backendError(op, k.name, res))
			break
		}
	}
	return res, unknown
}

// evict gives back every hold of the owner because the client closes.
func (s *ownerState) evict() {
	s.mu.Lock()
	n := s.needed()
	for _, h := range s.holds {
		h.ended = evicted
		h.cancel(ErrClosed)
		if h.lost == nil { // else lose has told the hooks
			h.tellOver(h.hasEnded())
		}
	}
	s.holds = nil
	s.endWatch()
	s.mu.Unlock()
	if n == 0 {
		return
	}
	s.releaseLater()
	for range n {
		s.unref() // each hold had one, or several that shared it
	}
}
