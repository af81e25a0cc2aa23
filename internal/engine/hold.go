package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/wakeup"
)

// Unlocking is what an Unlock has come to.
type Unlocking uint8

const (
	// EndedBefore says that the hold had ended, or was known to be lost.
	EndedBefore Unlocking = iota
	// NotReleased says that it may be held still, or it was found lost.
	NotReleased
	// Released says that it was given back.
	Released
	// PassedOn says that it has passed on inside this process.
	PassedOn
)

var (
	unlocked = &ending{"this hold was unlocked before", lockerr.NotHeld}
	passedOn = &ending{"this hold was unlocked before", lockerr.NotHeld}
	detached = &ending{"this hold was detached", lockerr.NotHeld}
	evicted  = &ending{"it was given back then, or its lease ends it", lockerr.Closed}
)

// prepare sets what is known of the hold before it is acquired.
func (h *Hold) prepare(ctx context.Context, l *Lock, args *Args) {
	h.Hold = ledger.Hold[*Hold]{Value: h, Lease: args.Lease, Fixed: args.Fixed && !args.RenewFirst}
	h.inside = within{Context: ctx, lock: l, held: h}
}

// begin makes a prepared hold one of a side's. mu is held.
func (h *Hold) begin(s *side, now mono.Time) {
	h.side, h.since, h.token = s, now, s.Token
	h.inside.owner, h.inside.account = s.account.owner, s.account
}

// Owner returns who holds the lock, for somebody who may use that; empty after it has passed on. Its hold does not pass on
// any more.
func (h *Hold) Owner() string { return h.tellOwner(true) }

// Shown is Owner for people to read: the hold passes on all the same.
func (h *Hold) Shown() string { return h.tellOwner(false) }

func (h *Hold) tellOwner(disclose bool) string {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.ended == passedOn {
		return ""
	}
	if disclose {
		a.undisclosed = false
	}
	return a.owner
}

// Token is the fencing token; 0: there is none.
func (h *Hold) Token() int64 { return h.token }

// Since is when it was acquired.
func (h *Hold) Since() mono.Time { return h.since }

// Context ends with the hold. It is made when it is asked for: many holds end before.
func (h *Hold) Context() context.Context {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.ctx == nil {
		h.makeContext()
		if h.err() != nil {
			h.cancel(nil)
		}
	}
	return h.ctx
}

// makeContext makes the context that ends with the hold. mu is held.
func (h *Hold) makeContext() { h.ctx, h.cancel = context.WithCancelCause(&h.inside) }

// Nest returns a context under which the hold's owner holds the lock while the hold lasts, and that does not end with it.
// It is derived from what Lock was called with.
func (h *Hold) Nest() context.Context {
	inside := h.inside
	return &inside
}

// Outer is the context that Lock was called with.
func (h *Hold) Outer() context.Context { return h.inside.Context }

// Terms are the lease that it was acquired with, and whether that is fixed by now.
func (h *Hold) Terms() (lease time.Duration, fixed bool) {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.Lease, h.Fixed
}

// PermitIDs are those of its permits; nil if it has none.
func (h *Hold) PermitIDs() []string {
	if permits := h.side.lock.Permits; permits != nil {
		return permits.IDs()
	}
	return nil
}

// Err returns why the hold has ended, or nil while it lasts.
func (h *Hold) Err() error {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.err()
}

// err is Err with mu held.
func (h *Hold) err() error {
	if h.ended != nil {
		return lockerr.Problem(h.side.lock.Name, h.ended.sentence, h.ended.err)
	}
	return h.Lost
}

// end ends the hold's context. It has no effect if that has ended before. mu is held.
func (h *Hold) end(cause error) {
	if h.cancel == nil && cause != nil {
		h.makeContext() // the caller's may end before somebody asks why
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
	if f := h.whenEnded; f != nil {
		h.whenEnded = nil
		f()
	}
}

// WhenEnded has f called once, when the hold is lost or given back; at once if it has been. The hold's mutex is held then.
func (h *Hold) WhenEnded(f func(why error)) {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := h.err(); why != nil {
		f(why)
		return
	}
	h.whenEnded = func() { f(h.err()) }
}

// Deadline is until when the hold may be trusted; of a lost one, until when it could be; zero after its end.
func (h *Hold) Deadline() mono.Time {
	s, a := h.side, h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case h.ended != nil:
		return 0
	case h.Lost != nil:
		return h.Trusted
	case s.entry == nil:
		return s.Trusted
	}
	return a.engine.watchdog.Deadline(s.entry)
}

// Extend makes the lock live for at least d from now.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	s, a := h.side, h.side.account
	a.mu.Lock()
	entry, err := s.entry, h.err()
	if err == nil && s.Within(mono.Now(), d) < d {
		err = a.engine.beyondMaxHold(s.lock.Name)
	}
	if err == nil {
		s.Alter() // the key may live for longer than the next one believes
	}
	a.mu.Unlock()
	if err != nil {
		return err
	}
	asked := mono.Now()
	if err := h.renew(ctx, entry, d); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.Object.IsZero() || s.Object >= a.engine.watchdog.Trust(asked, d) {
		return nil
	}
	return lockerr.Problem(s.lock.Name, "the semaphore ends before, and the hold with it: see Hold.Deadline and PermitSemaphore.Expire", lockerr.Invalid)
}

// renew makes the lock live for at least d from now. The entry says which run is meant.
func (h *Hold) renew(ctx context.Context, entry *entry, d time.Duration) error {
	s, a := h.side, h.side.account
	s.noteSent(d)
	res, err := s.lock.Invoke(ctx, "renew", s.lock.HoldRequests().Renew(a.owner, s.counts(), d))
	s.noteReply(d, res.Err == nil && len(res.Unknown) == 0)
	if err != nil {
		return err
	}
	count, err := s.renewed(entry, res.Reply, 0, res.Sent, d)
	if err != nil {
		return a.engine.Errors.Backend("renew", s.lock.Name, true, err)
	}
	if count == 0 {
		s.runLost(entry, true)
		return h.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.entry == entry { // else the answer is about holds that have ended
		a.engine.watchdog.Acknowledge(entry, res.Sent, d)
	}
	return h.err()
}

// confirmCount has Redis give the hold its lease, if it has that of a grant only.
func (h *Hold) confirm(ctx context.Context) error {
	a := h.side.account
	a.mu.Lock()
	entry, confirmed := h.side.entry, !h.side.unconfirmed
	a.mu.Unlock()
	if confirmed || entry == nil {
		return nil
	}
	return h.renew(ctx, entry, h.Lease)
}

// FixLease ends the renewal of the hold, and makes it live for a lease from now, or for as long as MaxHold lets it.
func (h *Hold) FixLease(ctx context.Context, lease time.Duration) error {
	s, a := h.side, h.side.account
	a.mu.Lock()
	h.Fixed = true
	s.Alter()
	if s.entry != nil {
		s.setRenewal()
	}
	lease = s.Within(mono.Now(), lease)
	entry, err := s.entry, h.err()
	a.mu.Unlock()
	if err != nil || lease < time.Millisecond {
		return err
	}
	return h.renew(ctx, entry, lease)
}

// RetainUntil keeps the lock from others until then, whenever it is unlocked.
func (h *Hold) RetainUntil(end mono.Time) {
	a := h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	h.side.Retained = max(h.side.Retained, end)
}

// Unlock gives the hold back, or hands it over to the first who waits here.
func (h *Hold) Unlock() (Unlocking, error) {
	s, a, e := h.side, h.side.account, h.side.account.engine
	if !e.Tasks.Begin() { // Close has given it back
		return EndedBefore, h.Err()
	}
	defer e.Tasks.End()
	if h.leaveShared() || h.handOver() {
		return PassedOn, nil
	}
	was, err := h.drop()
	if err != nil {
		return EndedBefore, err
	}
	if was.freed {
		defer a.unref()
	}
	if was.subscription != nil {
		defer was.subscription.Leave()
	}
	if was.cohort != nil {
		defer was.cohort.endWhenReleased()()
	}
	if was.lost != nil {
		if was.freed {
			a.releaseLater()
		}
		return was.how, was.lost
	}
	if err = s.unlock(was); err == nil || lockerr.IsUntold(err) {
		return Released, err
	}
	return NotReleased, err
}

// dropped is what Unlock has to know of a hold that it has taken off its side.
type dropped struct {
	run     *ledger.Run // in which it was
	trusted mono.Time   // until when it could have been trusted
	freed   bool        // it had a count that nobody needs now
	lost    error       // why it was lost
	how     Unlocking   // EndedBefore if that was known
	// subscription is where it has listened; nil if it has not. It ends once the hold is given back: until then it is counted.
	subscription *wakeup.Subscription
	cohort       *cohort // that ends with it; nil if it does not, or there is none
}

// drop takes the hold off its side. After the last one has left, nothing is renewed any more.
func (h *Hold) drop() (was dropped, err error) {
	s, a, watch := h.side, h.side.account, h.side.account.engine.watchdog
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.ended != nil {
		return dropped{}, h.err()
	}
	h.ended = unlocked
	found, freed := s.Drop(&h.Hold)
	if !found { // it was lost, and its key has gone
		return dropped{lost: h.Lost}, nil
	}
	if h.Lost == nil {
		was.how = NotReleased
	}
	was.run, was.freed = s.Run(), freed
	last := len(s.Holds()) == 0
	if last {
		was.subscription, s.subscription = s.subscription, nil
	}
	if last && s.cohort != nil {
		was.cohort, s.cohort = s.cohort, nil // until it is released: before that there is no use in asking
	}
	switch {
	case h.Lost != nil:
	case !last && s.overdue(), last && !s.endWatch():
		// The deadline has passed, and the watchdog is about to say so.
		h.Lost = s.lostError(s.Why(mono.Now(), false, !h.Fixed, s.reserve()))
		if last {
			s.Lose(h.Lost, false)
		}
		h.end(h.Lost)
	case last:
		was.trusted = s.Trusted
	default:
		was.trusted = watch.Deadline(s.entry)
		s.setRenewal()
	}
	h.end(nil)
	was.lost = h.Lost
	return was, nil
}

// retirementTime is for how long nobody may lock as an owner whose hold was detached, after its key may have gone: another
// process's delayed request to replace it has no effect any more then, whatever that one's timeout is.
const retirementTime = 30 * time.Minute

// Detach ends the hold without a release, and returns the owner for another to adopt.
func (h *Hold) Detach() (owner string, err error) {
	s, a, e := h.side, h.side.account, h.side.account.engine
	if !e.Tasks.Begin() { // Close has given it back
		return "", h.Err()
	}
	defer e.Tasks.End()
	if err := h.detachable(); err != nil {
		return "", err
	}
	ctx, cancel := WithTimeout(e.Life, e.Timeout)
	defer cancel()
	busy := func() error { return e.Errors.Backend("detach", s.lock.Name, false, errBusy) }
	if !h.awaitAlone(ctx) { // before the turn is taken, which they need to nest
		return "", lockerr.Problem(s.lock.Name, "others of this process go on reading by the same hold", lockerr.Reentrant)
	}
	if a.takeTurn(ctx) != nil {
		return "", busy()
	}
	defer a.turn.Free()
	if e.Calls.Outlast(ctx, a.attemptsInDoubt()); ctx.Err() != nil {
		return "", busy()
	}
	if err := h.confirm(ctx); err != nil {
		return "", err
	}
	keyEnd, err := h.endUnreleased()
	if err != nil {
		return "", err
	}
	e.retired.add(a.accountKey, keyEnd.Add(retirementTime)) // the turn is still taken: nobody asks as this owner yet
	a.unref()
	return a.owner, nil
}

// detachable returns why the hold cannot be detached, as far as that is known without waiting, or nil.
func (h *Hold) detachable() error {
	s, a := h.side, h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	other := s.other()
	switch err := h.err(); {
	case err != nil:
		return err
	case other != nil && len(other.Holds()) > 0:
		return errHoldsOther(s.lock.Name)
	}
	return nil
}

func errHoldsOther(name string) error {
	return lockerr.Problem(name, "its owner holds the other side, too", lockerr.Reentrant)
}

// endUnreleased is Detach when nothing is under way. It returns when the key will have gone.
func (h *Hold) endUnreleased() (keyEnd mono.Time, err error) {
	s, a := h.side, h.side.account
	a.mu.Lock()
	defer a.mu.Unlock()
	other := s.other()
	switch err := h.err(); {
	case err != nil:
		return 0, err
	case other != nil && other.Possible() > 0:
		return 0, errHoldsOther(s.lock.Name)
	case len(s.Holds()) != 1 || s.Possible() != 1:
		return 0, lockerr.Problem(s.lock.Name, "its owner has nested holds", lockerr.Reentrant)
	case mono.Now() < s.Retained:
		return 0, lockerr.Problem(s.lock.Name, "MinHold keeps it", lockerr.Invalid)
	case !s.endWatch(): // the watchdog was about to say so
		a.mu.Unlock()
		s.runLost(nil, false)
		a.mu.Lock()
		return 0, h.err()
	}
	h.ended = detached
	s.Drop(&h.Hold)
	for each := range a.opened {
		each.inDoubt = nil // nothing of them can have an effect any more
		each.CloseAll()
		each.ClearListed()
	}
	s.confirmCount(0)
	h.end(nil)
	return max(a.ledger.KeyEnd(), mono.Now().Add(a.engine.Lease)), nil
}
