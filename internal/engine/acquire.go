package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// acquisition is one call that acquires a hold.
type acquisition struct {
	blockingCall

	hold   *Hold // what the hold is to be
	claim  claim
	asking bool // it has the turn, and no result yet
	// nesting is the run of write holds that this is to read in; nil: there is none. It is granted only while these stand in
	// Redis.
	nesting *entry
}

// shares reports whether the hold may join others, or be joined.
func (a *acquisition) shares() bool { return a.taker != nil && a.lock.SharesHolds }

func newAcquisition(ctx context.Context, l *Lock, h *Hold, op string, args *Args) *acquisition {
	h.prepare(ctx, l, args)
	a := &acquisition{blockingCall: newBlockingCall(ctx, l, op, args), hold: h}
	a.lease = max(args.Lease, args.Retained())
	return a
}

// ordinary reports whether the hold of a new owner has no option that keeps it from passing on inside this process.
func (a *acquisition) ordinary() bool {
	return !a.args.Fixed && a.args.Retained() == 0 && a.engine.MaxHold == 0 && a.engine.HandsOver
}

// report says how it went.
func (a *acquisition) report(err error) (Report, error) {
	return Report{HadToWait: a.hadToWait, HandedOver: a.hold.received}, err
}

// do acquires for an owner that may have other calls and holds. obtain asks for a change.
func (a *acquisition) do(obtain func(*acquisition) call.Result) error {
	e := a.engine
	if err := e.begin(a.caller, a.op, a.lock.Name); err != nil {
		return err
	}
	defer e.Tasks.End()
	e.Presence.WriteIfDue(mono.Of(a.started))
	if err := a.enter(); err != nil {
		return err
	}
	defer a.end()
	if err := a.takeTurn(); err != nil {
		return err
	}
	a.asking = true
	res := a.run(obtain)
	return a.conclude(&res)
}

// end ends what the call has begun.
func (a *acquisition) end() {
	if a.asking { // the WaitObserver has panicked
		a.abandon(false)
		if a.hold.received {
			_, _ = a.hold.Unlock() // the client repeats a release without a reply
		}
	}
	a.unbound()
	if a.account != nil {
		a.account.unref()
	}
}

// enter finds the account, and refuses what cannot be. Once Drain was called, only what is nested is let in.
func (a *acquisition) enter() error {
	e := a.engine
	a.account = e.account(a.lock, a.claim)
	if a.account == nil {
		return lockerr.Problem(a.lock.Name, "this owner is another call's; Hold.Owner says whose a hold is", lockerr.Invalid)
	}
	a.side, a.stopping = &a.account.first, e.Draining
	if a.claim.fresh {
		return nil
	}
	a.side = a.account.side(a.lock)
	a.known = a.side
	if a.account.live() > 0 {
		a.stopping = e.Closing
	}
	return nil
}

// takeTurn takes the owner's turn, and looks whether what it is to be nested in still stands.
func (a *acquisition) takeTurn() error {
	if !a.claim.fresh && !a.account.turn.TryTake() { // a new account has its turn taken
		err := a.account.takeTurn(a.bound())
		a.last = a.account.refusedSince(a.started) // there may be no time left to ask
		if err != nil {
			a.noteBusy()
			return a.failure(&call.Result{Err: err})
		}
	}
	err := a.claim.err() // again: the hold may have ended since, and its owner be another's
	switch {
	case err != nil:
		err = a.failure(&call.Result{Err: err})
	case a.stopping.Err() != nil:
		err = lockerr.Problem(a.lock.Name, "", lockerr.Closed)
	case !a.claim.fresh && a.engine.retired.has(a.account.accountKey):
		err = lockerr.Problem(a.lock.Name, "nobody may lock as this owner: its hold was detached, or MinHold keeps the lock", lockerr.Invalid)
	}
	if err != nil {
		a.account.turn.Free()
	}
	return err
}

// noteBusy notes that the call has ended while it waited for an earlier one of its owner, unless there was a refusal, or the caller has
// cancelled it before anybody could say that Redis is slow.
func (a *acquisition) noteBusy() {
	soon := time.Since(a.started) < call.Patience(a.caller, true, a.engine.AckTimeout)
	if a.last == nil && !soon {
		a.last = &failure{errBusy}
	}
}

// run asks Redis until there is an answer, and returns the change that was asked for. The turn is taken.
func (a *acquisition) run(obtain func(*acquisition) call.Result) (res call.Result) {
	if res = a.next(); res.Err != nil {
		return res
	}
	if a.change.To > 1 && a.lock.NonReentrant {
		return call.Result{Err: lockerr.Problem(a.lock.Name, "it is NonReentrant", lockerr.Reentrant)}
	}
	res = obtain(a)
	if res.Has(script.Upgrade) && a.op == OpAcquire && a.leftOther() {
		if res = a.clear(); res.Err == nil {
			res = obtain(a)
		}
	}
	return res
}

// changed is why an acquire found another count than was thought: what it was to be nested in is lost.
func (a *acquisition) changed(res *call.Result) error {
	if found, known := protocol.FoundCount(res.Reply); a.nesting != nil && known && found == a.change.From {
		// Its own side is as it was thought: the writer is missing.
		a.nesting.Value.runLost(a.nesting, true)
		return cmp.Or(a.claim.err(), a.nesting.Value.whyLost(), a.engine.Errors.Lost(a.lock.Name, lockerr.Taken, nil))
	}
	if err := a.claim.err(); err != nil {
		return err
	}
	a.side.vanished() // nobody else changes this owner's count
	return a.side.whyLost()
}

// leftOther reports whether the other side, which was in the way a moment ago, is not held any more.
func (a *acquisition) leftOther() bool {
	a.account.mu.Lock()
	defer a.account.mu.Unlock()
	other := a.side.other()
	return other != nil && len(other.Holds()) == 0
}

// next decides on the change to ask for, after it has given back what the owner holds no more. The turn is taken, but holds may
// be dropped at any time.
func (a *acquisition) next() (res call.Result) {
	for {
		ok, lost := a.tryNext()
		if res.Err = cmp.Or(a.claim.err(), lost); ok || res.Err != nil {
			return res
		}
		if res = a.clear(); res.Err != nil {
			return res
		}
	}
}

// tryNext is next, or reports false if something has to be given back before.
func (a *acquisition) tryNext() (ok bool, err error) {
	a.account.mu.Lock()
	defer a.account.mu.Unlock()
	if s, _ := a.account.excess(); s != nil {
		return false, nil
	}
	a.change, ok, err = a.side.Next()
	if ok && err == nil {
		err = a.fitLease()
	}
	return ok, err
}

// clear gives back what no hold needs any more, on either side. There is such a count if an Unlock waits for the turn behind
// this acquire, or if Redis did not answer it. Open attempts are waited for first: one of an earlier acquire could find just
// the count that it was to raise. The result says why it could not, and what is known of Redis then. The turn is taken.
func (a *acquisition) clear() call.Result {
	for {
		ctx := a.bound()
		a.engine.Calls.Outlast(ctx, a.account.attemptsInDoubt())
		a.engine.Calls.Outlast(ctx, a.unknown)
		if ctx.Err() != nil {
			a.noteBusy()
			return call.Result{Err: context.Cause(ctx)}
		}
		a.account.mu.Lock()
		s, ch := a.account.excess()
		a.account.mu.Unlock()
		if s == nil {
			return call.Result{}
		}
		res := a.engine.Calls.Do(ctx, s.release(ch), nil)
		s.noteRelease(res, ch)
		failed := call.Result{Err: res.Err, Sent: res.Sent, LastFailure: res.LastFailure}
		if res.Err == nil {
			a.engine.Calls.Outlast(ctx, res.Unknown) // or a delayed one would hit what is acquired now
			failed = call.Result{Err: context.Cause(ctx)}
		}
		if failed.Err != nil {
			a.account.locked(func() { s.addInDoubt(res.Unknown, 0, true) })
			return failed
		}
	}
}

// fitLease cuts the lease to what MaxHold leaves of the run, or of the write holds that it begins in. mu is held.
func (a *acquisition) fitLease() error {
	s := a.side
	if writes := s.other(); writes != nil && a.lock.Shared && writes.entry != nil {
		a.nesting = writes.entry
		if a.change.From == 0 {
			s.MaxHold = writes.MaxHold
		}
	}
	rest := s.Within(mono.Now(), a.lease)
	switch {
	case rest >= a.lease:
		return nil
	case rest <= 0:
		return a.engine.Errors.Lost(a.lock.Name, lockerr.MaxHoldOver, nil)
	case a.args.Fixed && !a.args.Cuts, rest < a.args.Retained():
		return a.engine.beyondMaxHold(a.lock.Name)
	case rest < time.Millisecond:
		return a.engine.Errors.Lost(a.lock.Name, lockerr.MaxHoldOver, nil)
	}
	a.lease = rest
	return nil
}

// obtain asks once, or until the lock is acquired.
func (a *acquisition) obtain() call.Result {
	request := a.wanted()
	return a.askAndWait(&request)
}

// wanted is what Redis is asked for.
func (a *acquisition) wanted() protocol.Acquire {
	return protocol.Acquire{
		Owner: a.claim.owner, From: a.change.From, To: a.change.To, Lease: a.lease, Token: a.lock.Fenced && a.wantsToken(),
		Writes: a.nesting != nil, Waiting: a.change.From == 0 && !a.args.OneTry, Unlisted: a.args.OneTry && a.lock.listed(),
	}
}

// adopt asks to replace another owner.
func (a *acquisition) adopt(owner, shown string) call.Result {
	l := a.lock
	a.noteSent()
	res := a.engine.Calls.Do(a.bound(), l.HoldRequests().Adopt(a.wanted(), owner), nil)
	a.unknown = res.Unknown
	a.noteReply(&res)
	l.Recheck() // one of them may be who held it
	switch {
	case res.Err != nil:
	case res.Reply.Code == script.Refused:
		res.Err = lockerr.Problem(l.Name, "there is nothing to adopt of "+shown, lockerr.NotHeld)
	case res.Reply.Code == script.Upgrade:
		res.Err = lockerr.Problem(l.Name, shown+" holds both sides, and is not replaced on one of them", lockerr.Reentrant)
	}
	return res
}

// wantsToken reports whether a fenced lock is to take a token: one for each run of holds, or the inner one of two would make the
// outer one's too old.
func (a *acquisition) wantsToken() bool {
	if a.change.From == 0 {
		return true
	}
	a.account.mu.Lock()
	defer a.account.mu.Unlock()
	return a.side.Token == 0
}

// conclude turns the last answer into the caller's result. The turn is taken; it is freed, or passed on.
func (a *acquisition) conclude(res *call.Result) error {
	a.asking = false
	if res.Has(script.Done) {
		return a.granted(res)
	}
	if res.Has(script.Changed) {
		res.Err = a.changed(res)
	}
	a.abandon(false)
	switch {
	case a.hold.received:
		return a.hold.accept()
	case res.Err != nil:
		return a.failure(res)
	case res.Reply.Code == script.Upgrade:
		return lockerr.Problem(a.lock.Name, "this owner holds it for reading, and would wait for itself; give that back first", lockerr.Reentrant)
	}
	return a.refusal(res)
}

// abandon notes what the attempts may have taken, has it given back, and frees the turn once they can have no effect any more.
func (a *acquisition) abandon(release bool) {
	if a.account == nil { // nothing was sent
		return
	}
	a.account.mu.Lock()
	if a.claim.fresh && (release || len(a.unknown) > 0) {
		a.side.Learned(mono.Now(), a.keyLives())
	}
	a.addInDoubt()
	a.account.mu.Unlock()
	a.account.freeTurn(release)
}

// addInDoubt keeps what the call leaves for freeTurn: attempts that may have their effect yet, and a waiter in Redis. mu is held.
func (a *acquisition) addInDoubt() {
	a.side.addInDoubt(a.unknown, a.change.To, false)
	if a.leaveDue {
		a.side.MarkListed()
	}
}

// granted makes the hold, or says why the grant cannot be trusted, and has it released in the background. The turn is taken;
// it is freed, or passed on.
func (a *acquisition) granted(res *call.Result) error {
	s, e, h, ch := a.side, a.engine, a.hold, a.change
	now := mono.Now()
	lifetime, lease := a.lock.HoldRequests().Lifetime(res.Reply), cmp.Or(a.grant, a.lease)
	deadline := e.watchdog.Trust(res.Sent, min(lease, lifetime))
	a.account.mu.Lock()
	if err := a.untrusted(res, deadline, now); err != nil {
		s.Stood(ch.To)
		if a.queue != nil {
			a.queue.Resume(s, 0)
		}
		a.account.mu.Unlock()
		a.abandon(true)
		return err
	}
	if ch.From == 0 {
		s.Token = 0
	}
	if a.lock.Fenced {
		s.noteToken(res.Reply)
	}
	if a.claim.fresh || a.grant > 0 {
		s.Learned(now, a.keyLives())
	}
	h.begin(s, now)
	s.Granted(ch, &h.Hold)
	if a.shares() {
		h.share(a.queue)
	} else {
		s.beginCohort(a.queue, h.since)
	}
	if s.entry == nil {
		s.watch(h, res.Sent, now, lease)
		s.unconfirmed = a.grant > 0
		if lifetime < a.lease {
			s.setObjectEnd(deadline)
		}
	} else {
		e.watchdog.Acknowledge(s.entry, res.Sent, lease)
		s.unconfirmed = false
		s.setRenewal()
	}
	if a.args.MinHold > 0 {
		s.Retained = max(s.Retained, now.Add(a.args.MinHold))
		e.Presence.OutlastedUntil(s.Retained)
	}
	if len(a.unknown) > 0 {
		a.addInDoubt()
	}
	harmless := a.account.ledger.Harmless() // an attempt of an earlier hold, which was lost, may be open
	a.account.mu.Unlock()
	a.account.ref() // the hold's
	if !harmless {
		a.account.freeTurn(false)
		return nil
	}
	a.account.turn.Free()
	return nil
}

// keyLives is the longest time from now that the key may live because of this call.
func (a *acquisition) keyLives() time.Duration {
	if len(a.unknown) > 0 {
		return a.lease + a.engine.Timeout
	}
	return a.lease
}

// untrusted says why a grant is not handed out. mu is held.
func (a *acquisition) untrusted(res *call.Result, deadline, now mono.Time) error {
	s, e := a.side, a.engine
	switch {
	case res.Acknowledged < e.Replicas:
		return e.notReplicated(a.lock.Name, res.Acknowledged)
	case e.Closing.Err() != nil:
		return lockerr.Problem(a.lock.Name, "", lockerr.Closed)
	case s.Lost() != nil:
		return s.Lost()
	case deadline <= now:
		return e.Errors.Lost(a.lock.Name, lockerr.LeaseOver, nil)
	case !s.MaxHold.IsZero() && s.MaxHold <= now:
		return e.Errors.Lost(a.lock.Name, lockerr.MaxHoldOver, nil)
	}
	return nil
}
