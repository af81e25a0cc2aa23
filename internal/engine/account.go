package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/binarysem"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/list"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// account is what this process knows of one owner at one lock, both sides of it. It comes into being with the owner's first
// call and goes when nobody needs it.
type account struct {
	engine      *Engine
	name, class string
	owner       string

	// turn is the right to ask Redis for a change on behalf of this owner at this lock. Who has taken it keeps it until it
	// is known what came of that. So changes come one after another, and an old one cannot undo a newer one.
	turn binarysem.Sem

	refs  atomic.Int32 // calls under way, counts of holds, goroutines; see unref
	node  list.Node[*account]
	known bool // it stands in Engine.known; guarded by Engine.mu

	mu     sync.Mutex // guards what follows, and the sides
	ledger ledger.Account[*Hold]
	sides  [2]*side
	first  side // what sides points to at first
	// undisclosed says that nobody outside the library knows the owner.
	undisclosed bool
	// fewer is closed when a count falls; nil if nobody waits for that.
	fewer chan struct{}
	// waiter is that of the acquire that has the turn; nil if none waits in a queue.
	waiter *waiter
	// retries says that tryAgain is going to give back what Redis has refused to take.
	retries bool
}

// side is one of the counts of an account. Its fields are guarded by the account's mu.
type side struct {
	ledger.Side[*Hold]

	account *account
	lock    *Lock
	// entry is watched from the first hold of a run to the last. Each run has one of its own: whoever brings news of an older one
	// is recognised by it.
	entry      *entry
	firstEntry entry // what entry points to at first
	// open are attempts that were not answered, and may have their effect yet. What they may do, the ledger knows.
	open []*call.Attempt
	// leaving takes a waiter out of Redis that has given up; zero if there is none.
	leaving      script.Request
	subscription *wakeup.Subscription // where a long hold listens for a forced unlock
	failing      error                // how the last renewal failed; nil if it was acknowledged
	cohort       *cohort              // in which the hold passes on, or has several; nil if it has not, so far
}

// entry is what the watchdog has of a run of holds.
type entry = watchdog.Entry[*side]

// accountKey is an owner at a lock.
type accountKey struct{ name, class, owner string }

func (a *account) key() accountKey { return accountKey{a.name, a.class, a.owner} }

// account returns the account of a claim, and makes it if need be; nil if the owner is another call's own. It is paired with a
// call of unref.
func (e *Engine) account(l *Lock, c claim) *account {
	if c.account != nil {
		c.account.refs.Add(1)
		return c.account
	}
	a := &account{engine: e, name: l.Name, class: l.Class, owner: c.owner}
	a.undisclosed = c.fresh && (l.HandsOver || l.SharesHolds)
	a.refs.Store(1)
	a.addSide(&a.first, l)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.fresh {
		return e.byHand(a)
	}
	e.list(a)
	return a
}

// byHand returns the account that an owner has, who was set by hand: if there is none, a. It is nil if the owner is another
// call's own. mu is held.
func (e *Engine) byHand(a *account) *account {
	if found := e.find(a.key()); found != nil {
		if !found.disclosed() {
			return nil
		}
		found.refs.Add(1)
		a = found
	}
	e.list(a)
	if !a.known {
		e.known[a.key()], a.known = a, true
	}
	return a
}

// list puts an account among all, if it is not there. mu is held.
func (e *Engine) list(a *account) {
	if a.node.Value == nil {
		a.node.Value = a
		e.accounts.InsertAfter(&a.node, e.accounts.Last())
	}
}

// find returns the account with a key, or nil. Those of fresh owners are not in the map until somebody asks for them, which
// is rare. mu is held.
func (e *Engine) find(key accountKey) *account {
	if a := e.known[key]; a != nil || !isFresh(key.owner) {
		return a
	}
	for n := e.accounts.First(); n != nil; n = n.Next() {
		if n.Value.key() == key {
			return n.Value
		}
	}
	return nil
}

// disclosed reports whether the owner may be used by hand. Otherwise it is another call's, and was read in Redis.
func (a *account) disclosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.undisclosed
}

// disclose notes that somebody knows the owner from now on.
func (a *account) disclose() {
	e := a.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !a.known && a.node.Value != nil {
		e.known[a.key()], a.known = a, true
	}
}

func (a *account) ref() { a.refs.Add(1) }

// unref drops the account if nobody needs it any more. Someone may find it in that moment, so it is looked at again.
func (a *account) unref() {
	if a.refs.Add(-1) > 0 {
		return
	}
	e := a.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.refs.Load() > 0 || a.node.Value == nil {
		return
	}
	e.accounts.Remove(&a.node)
	a.node.Value = nil
	if a.known {
		delete(e.known, a.key())
	}
}

// side returns the side of a lock, and opens it if need be.
func (a *account) side(l *Lock) *side {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sides[l.Side] == nil {
		a.addSide(new(side), l)
	}
	return a.sides[l.Side]
}

// addSide makes s the side of a lock. mu is held, or nobody else knows the account.
func (a *account) addSide(s *side, l *Lock) {
	s.account, s.lock = a, l
	a.sides[l.Side] = s
	a.ledger.Add(l.Side, &s.Side)
}

// opened are the account's sides. mu is held.
func (a *account) opened(yield func(*side) bool) {
	for _, s := range a.sides {
		if s != nil && !yield(s) {
			return
		}
	}
}

// locked runs f with mu held.
func (a *account) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// other is the other side of the lock, on which the owner may hold it, too; nil if it never has.
func (s *side) other() *side { return s.account.sides[1-s.lock.Side] }

// live is how many holds are neither given back nor lost.
func (a *account) live() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		n += s.Live()
	}
	return n
}

// takeTurn waits for the right to ask Redis for a change. It returns the context's cause if ctx ends first.
func (a *account) takeTurn(ctx context.Context) error {
	if a.turn.TryTake() {
		return nil
	}
	select {
	case a.turn.Chan() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errBusy is the failure of a call that has waited in vain for the turn, or for what an earlier call has sent.
var errBusy = fmt.Errorf("an earlier call of its owner has no answer yet: %w", call.ErrNoAnswer)

// busy is why an acquire did not get the turn: what the call that has it was refused with, if it still waits in a queue,
// or errBusy.
func (a *account) busy() error {
	a.mu.Lock()
	waiter := a.waiter
	a.mu.Unlock()
	if waiter != nil {
		if _, last := waiter.Retry(); last != nil {
			return last
		}
	}
	return &failure{errBusy}
}

// setWaiter notes the waiter of the acquire that has the turn; nil when it waits no more.
func (a *account) setWaiter(w *waiter) {
	a.locked(func() { a.waiter = w })
}

// failure is a connection's failure, as a queue keeps it for all who wait.
type failure struct{ why error }

func (f *failure) Error() string { return f.why.Error() }

// asked notes that a call is under way that lets the key live for ttl. It is paired with a call of answered.
func (s *side) asked(ttl time.Duration) {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.Asked(mono.Now(), ttl, s.account.engine.Timeout)
}

// answered notes that such a call is over, and whether it is known what came of it.
func (s *side) answered(ttl time.Duration, known bool) {
	if !known {
		ttl += s.account.engine.Timeout
	}
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.Answered(mono.Now(), ttl)
}

// confirm notes how many counts stand in Redis now. mu is held.
func (s *side) confirm(count int) {
	if s.Confirm(count) {
		s.account.fell()
	}
}

// fell tells those who wait for it that a count has fallen. mu is held.
func (a *account) fell() {
	if a.fewer != nil {
		close(a.fewer)
		a.fewer = nil
	}
}

// keepOpen keeps attempts that may have their effect yet: acquires of up to so many counts, or releases. mu is held.
func (s *side) keepOpen(attempts []*call.Attempt, upTo int, releases bool) {
	if len(attempts) == 0 {
		return
	}
	s.open = append(s.open, attempts...)
	s.Open(upTo, releases)
}

// openAttempts are those of all sides.
func (a *account) openAttempts() (all []*call.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		all = append(all, s.open...)
	}
	return all
}

// watch begins to watch a run. mu is held.
func (s *side) watch(h *Hold, sent time.Time, lease time.Duration) {
	e := s.account.engine
	if s.MaxHold.IsZero() && e.MaxHold > 0 {
		s.MaxHold = mono.Of(sent).Add(e.MaxHold)
	}
	s.Object, s.ObjectAsOf, s.failing = 0, mono.Now(), nil
	s.entry = &s.firstEntry
	if s.firstEntry.Value != nil { // it has been another run's
		s.entry = new(entry)
	}
	*s.entry = entry{Value: s, Lease: h.Lease, Until: s.MaxHold, RecheckEvery: s.lock.RecheckEvery}
	if h.Fixed {
		s.entry.Lease = e.Lease // for holds that are nested in it, and for pauses
	}
	e.watchdog.Watch(s.entry, sent, lease, !h.Fixed)
}

// setRenewal has the watchdog renew what the holds need. mu is held.
func (s *side) setRenewal() {
	lease, watch := s.RenewedLease(), s.account.engine.watchdog
	if lease > 0 {
		watch.SetLease(s.entry, lease)
	}
	watch.SetRenewing(s.entry, lease > 0)
}

// setObjectEnd notes when the object ends, and the holds with it; zero: never. mu is held.
func (s *side) setObjectEnd(end mono.Time) {
	s.Object = end
	s.account.engine.watchdog.SetUntil(s.entry, s.Until())
}

// endWatch ends renewal and listening, has those who wait here ask again, and reports whether the holds could be trusted
// until now. mu is held.
func (s *side) endWatch() bool {
	s.endCohort()
	if s.subscription != nil {
		s.subscription.Leave()
		s.subscription = nil
	}
	if s.entry == nil {
		return false
	}
	e := s.account.engine
	trusted := e.watchdog.Remove(s.entry)
	if s.entry.LongHeld() {
		e.Presence.Ended(s)
	}
	s.Trusted = s.entry.Deadline()
	s.entry = nil
	return trusted
}

// overdue reports whether the holds may be trusted no more, and the watchdog is about to say so. mu is held.
func (s *side) overdue() bool {
	return s.entry != nil && s.account.engine.watchdog.Deadline(s.entry) <= mono.Now()
}

// lost and longHeld are called by the watchdog.
func lost(e *entry, reason watchdog.Reason) { e.Value.lose(e, reason == watchdog.NotHeld) }
func longHeld(e *entry)                     { e.Value.listen(e) }

// lose ends every hold of the side, once. entry says which run the news is of; nil means the present one.
func (s *side) lose(entry *entry, notHeld bool) {
	a, e := s.account, s.account.engine
	a.mu.Lock()
	if s.Lost() != nil || entry != nil && entry != s.entry {
		a.mu.Unlock()
		return
	}
	now := mono.Now()
	reason := s.Why(now, notHeld, s.RenewedLease() > 0, s.reserve())
	why := s.lostError(reason)
	forget := s.End()
	if other := s.other(); notHeld || other != nil && now < other.End() { // it has gone, or does not go by itself
		forget = now
	}
	s.endWatch()
	s.Lose(why, reason == ledger.Taken)
	holds := append([]*ledger.Hold[*Hold](nil), s.Holds()...)
	run := s.Run()
	for _, h := range holds {
		h.Value.end(why)
		if h.Value.observer != nil {
			h.Value.observer.Ended(why)
		}
	}
	a.mu.Unlock()
	if len(holds) == 0 {
		return
	}
	e.Tasks.Go(func() {
		call.Sleep(e.closing, mono.Until(forget))
		if e.closing.Err() == nil { // else Close sees to it
			s.forget(run)
		}
	})
}

// reserve is by how much a deadline may be before the end that it comes from; see [watchdog.Watchdog.Trust]. mu is held.
func (s *side) reserve() time.Duration {
	e := s.account.engine
	return e.Margin + max(e.Lease, s.RenewedLease())/50 + 10*time.Millisecond
}

// lostError is the error of a lost run. The last failure is told if that is why. mu is held.
func (s *side) lostError(why ledger.Reason) error {
	var cause error
	if why == ledger.Unanswered {
		cause = s.failing
	}
	return s.account.engine.Errors.Lost(s.lock.Name, reasons[why], cause)
}

// reasons are what users are told.
var reasons = [...]lockerr.Reason{
	ledger.Taken: lockerr.Taken, ledger.Unanswered: lockerr.Unanswered, ledger.LeaseOver: lockerr.LeaseOver, ledger.MaxHoldOver: lockerr.MaxHoldOver,
}

// vanished notes that Redis has none of the counts any more.
func (s *side) vanished() {
	s.lose(nil, true)
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.confirm(0)
}

// whyLost returns why the holds are lost, or nil.
func (s *side) whyLost() error {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return s.Lost()
}

// forget lets go of lost holds once their key has gone: many users never unlock such a hold. What the other side lets live
// is given back.
func (s *side) forget(run *ledger.Run) {
	a := s.account
	a.mu.Lock()
	other := s.other()
	counts, fewer, unsettled := s.Forget(run, other != nil && mono.Now() < other.End())
	if fewer {
		a.fell()
	}
	a.mu.Unlock()
	if unsettled {
		a.releaseLater()
	}
	for range counts {
		a.unref()
	}
}

// listen makes a long hold hear of a forced unlock, and says since when it lasts.
func (s *side) listen(entry *entry) {
	a, e := s.account, s.account.engine
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.entry != entry {
		return
	}
	s.endCohort() // those who wait here look after the lock again, as those of other processes do
	if len(s.Holds()) > 0 {
		e.Presence.Holds(s, s.heldFields(), s.Holds()[0].Value.since)
	}
	channel := s.lock.HolderChannel
	if channel == "" {
		channel = s.lock.Requests.Channel(a.owner)
	}
	if s.subscription == nil && channel != "" {
		s.subscription = e.hub.Join(channel, recheck{entry})
	}
}

// heldFields are what a client says of the holds of this side.
func (s *side) heldFields() (fields []string) {
	if s.lock.PermitIDs == nil {
		return []string{protocol.HeldField(s.account.owner, s.lock.Name)}
	}
	for _, id := range s.lock.PermitIDs() {
		fields = append(fields, protocol.HeldField(id, s.lock.Name))
	}
	return fields
}

// recheck is a run of holds that is checked when its channel says something.
type recheck struct{ *entry }

// Notify is called by the hub.
func (r recheck) Notify() { r.Value.account.engine.watchdog.Check(r.entry) }

// NotifyAcquired is about those who wait.
func (recheck) NotifyAcquired() {}

// Recheck has this client's own holders of the lock look whether they still hold it.
func (l *Lock) Recheck() {
	l.Engine.each(func(a *account) {
		if a.name != l.Name {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for s := range a.opened {
			if s.entry != nil {
				l.Engine.watchdog.Check(s.entry)
			}
		}
	})
}

// retirement knows the owners that nobody may lock as: their holds were detached, and another process is about to replace
// them; or they are nobody's. The zero value has none.
type retirement struct {
	mu      sync.Mutex
	until   map[accountKey]mono.Time // guarded by mu
	sweepAt int                      // how many there may be before the old ones are dropped; guarded by mu
	some    atomic.Bool              // there have been any
}

// add notes that nobody may lock as the owner until then.
func (r *retirement) add(key accountKey, until mono.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some.Store(true)
	if len(r.until) >= r.sweepAt { // not each time: there may be many
		now := mono.Now()
		for other, end := range r.until {
			if end < now {
				delete(r.until, other)
			}
		}
		r.sweepAt = 2*len(r.until) + 16
	}
	if r.until == nil {
		r.until = map[accountKey]mono.Time{}
	}
	r.until[key] = until
}

// has reports whether nobody may lock as the owner now.
func (r *retirement) has(key accountKey) bool {
	if !r.some.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return mono.Now() < r.until[key]
}
