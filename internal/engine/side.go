package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// other is the other side of the lock, on which the owner may hold it, too; nil if it never has.
func (s *side) other() *side { return s.account.sides[1-s.lock.Side] }

// noteSent notes that a call is under way that lets the key live for ttl. It is paired with a call of noteReply.
func (s *side) noteSent(ttl time.Duration) {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.Asked(mono.Now(), ttl, s.account.engine.Timeout)
}

// noteReply notes that such a call is over, and whether it is known what came of it.
func (s *side) noteReply(ttl time.Duration, known bool) {
	if !known {
		ttl += s.account.engine.Timeout
	}
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.Answered(mono.Now(), ttl)
}

// noteToken notes the fencing token of a grant, if it has one. mu is held.
func (s *side) noteToken(granted script.Reply) {
	if token, found := granted.Number(0); found && token > 0 {
		s.Token = token
	}
}

// confirmCount notes how many counts stand in Redis now. mu is held.
func (s *side) confirmCount(count int) {
	if s.Confirm(count) {
		s.account.fell()
	}
}

// addInDoubt keeps attempts that may have their effect yet: acquires of up to so many counts, or releases. mu is held.
func (s *side) addInDoubt(attempts []*call.Attempt, upTo int, releases bool) {
	if len(attempts) == 0 {
		return
	}
	s.inDoubt = append(s.inDoubt, attempts...)
	s.Open(upTo, releases)
}

// watch begins to watch a run. mu is held.
func (s *side) watch(h *Hold, sent, now mono.Time, lease time.Duration) {
	e := s.account.engine
	if s.MaxHold.IsZero() && e.MaxHold > 0 {
		s.MaxHold = sent.Add(e.MaxHold)
	}
	s.Object, s.ObjectAsOf, s.failing, s.overslept, s.unconfirmed = 0, now, nil, false, false
	s.entry = &s.firstEntry
	if s.firstEntry.Value != nil { // an earlier run used it
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
	s.Trusted, s.overslept = s.entry.Deadline(), !trusted && e.watchdog.Overslept(s.entry)
	s.entry = nil
	return trusted
}

// overdue reports whether the holds may be trusted no more, and the watchdog is about to say so. mu is held.
func (s *side) overdue() bool {
	if s.entry == nil || mono.Now() < s.account.engine.watchdog.Deadline(s.entry) {
		return false
	}
	s.overslept = s.account.engine.watchdog.Overslept(s.entry)
	return true
}

// runLost ends every hold of the side, once. entry says which run the news is of; nil means the present one.
func (s *side) runLost(entry *entry, notHeld bool) {
	a, e := s.account, s.account.engine
	a.mu.Lock()
	if s.Lost() != nil || entry != nil && entry != s.entry {
		a.mu.Unlock()
		return
	}
	s.endWatch()
	now := mono.Now()
	reason := s.Why(now, notHeld, s.RenewedLease() > 0, s.reserve())
	why := s.lostError(reason)
	forget := s.End()
	if other := s.other(); notHeld || other != nil && now < other.End() { // it has gone, or does not go by itself
		forget = now
	}
	s.Lose(why, reason == ledger.Taken)
	holds := append([]*ledger.Hold[*Hold](nil), s.Holds()...)
	run := s.Run()
	for _, h := range holds {
		h.Value.end(why)
		if h.Value.Observer != nil {
			h.Value.Observer.Ended(why)
		}
	}
	a.mu.Unlock()
	if len(holds) == 0 {
		return
	}
	e.Tasks.Go(func() {
		call.Sleep(e.Closing, mono.Until(forget))
		if e.Closing.Err() == nil { // else Close sees to it
			s.forgetRun(run)
		}
	})
}

// reserve is more than [watchdog.Watchdog.Trust] takes off a lease to get the deadline. mu is held.
func (s *side) reserve() time.Duration {
	e := s.account.engine
	return e.Margin + max(e.Lease, s.RenewedLease())/50 + 10*time.Millisecond
}

// lostError is the error of a lost run. The last failure is told if that is why. mu is held.
func (s *side) lostError(why ledger.Reason) error {
	reason, cause := reasons[why], error(nil)
	switch {
	case why == ledger.Unanswered && s.overslept:
		reason = lockerr.Suspended
	case why == ledger.Unanswered:
		cause = s.failing
	}
	return s.account.engine.Errors.Lost(s.lock.Name, reason, cause)
}

// reasons are what users are told.
var reasons = [...]lockerr.Reason{
	ledger.Taken: lockerr.Taken, ledger.Unanswered: lockerr.Unanswered, ledger.LeaseOver: lockerr.LeaseOver, ledger.MaxHoldOver: lockerr.MaxHoldOver,
}

// vanished notes that Redis has none of the counts any more.
func (s *side) vanished() {
	s.runLost(nil, true)
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	s.confirmCount(0)
}

// whyLost returns why the holds are lost, or nil.
func (s *side) whyLost() error {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return s.Lost()
}

// forgetRun drops lost holds once their key has gone: many users never unlock such a hold. If the other side keeps the key
// alive, or may, the counts are given back.
func (s *side) forgetRun(run *ledger.Run) {
	a := s.account
	a.mu.Lock()
	other := s.other()
	stands := other != nil && mono.Now() < other.End() || s.lock.Permits != nil // somebody may have prolonged a permit by its id
	counts, fewer, unsettled := s.Forget(run, stands)
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
	s.endCohort() // waiters of this process ask again, as those of other processes do
	if len(s.Holds()) > 0 {
		e.Presence.Holds(s, s.heldFields(), s.Holds()[0].Value.since)
	}
	var channel string
	if permits := s.lock.Permits; permits != nil {
		channel = permits.Channel
	} else {
		channel = s.lock.Requests.Channel(a.owner)
	}
	if s.subscription == nil && channel != "" {
		s.subscription = e.hub.Join(channel, recheck{entry})
	}
}

// heldFields are what a client says of the holds of this side.
func (s *side) heldFields() (fields []string) {
	if s.lock.Permits == nil {
		return []string{protocol.HeldField(s.account.owner, s.lock.Name)}
	}
	for _, id := range s.lock.Permits.IDs() {
		fields = append(fields, protocol.HeldField(id, s.lock.Name))
	}
	return fields
}

// recheck is a run of holds that is checked when its channel says something.
type recheck struct{ *entry }

// Hear is called by the hub.
func (r recheck) Hear(string) { r.Value.account.engine.watchdog.Check(r.entry) }

// noteRenewal notes how a renewal failed, and whether it may have had its effect; or that it did not fail.
func (s *side) noteRenewal(err error, mayHaveRun bool) {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	s.failing = nil
	if err != nil {
		s.failing = a.engine.Errors.Backend("renew", s.lock.Name, mayHaveRun, err)
	}
	for _, h := range s.Holds() {
		if !h.Fixed && h.Value.Observer != nil {
			h.Value.Observer.Renewed(s.failing)
		}
	}
}

// renewed reads the reply to the i-th of some renewals, which asked for a ttl: how often the owner holds the lock. If the reply says
// for how long, too, others may have made that longer, and the deadline moves: that of the run that was renewed, and of no later one.
func (s *side) renewed(entry *entry, reply script.Reply, i int, sent mono.Time, ttl time.Duration) (count int64, err error) {
	found, err := s.lock.HoldRequests().ReadRenewal(reply, i)
	if err != nil || found.Count == 0 {
		return found.Count, err
	}
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.entry == entry && ttl >= s.RenewedLease().Truncate(time.Millisecond) { // else it has what was asked for, and not its lease
		s.unconfirmed = false
	}
	if !found.Lives {
		return found.Count, nil
	}
	if found.Gone < 0 {
		found.Gone = protocol.MaxLease
	}
	s.Learned(mono.Now(), found.Gone)
	if s.entry != entry {
		return found.Count, nil
	}
	if found.Left >= 0 && !s.MaxHold.IsZero() {
		found.Left = min(found.Left, s.MaxHold.Sub(sent))
	}
	s.learnObjectEnd(sent, found)
	if found.Left >= 0 {
		a.engine.watchdog.Acknowledge(entry, sent, found.Left)
	}
	return found.Count, nil
}

// learnObjectEnd notes when the semaphore ends, as the reply to a call says that was sent then. A call that was under way when
// another one was answered may have been served before it: of the two ends the earlier one counts until Redis has been asked
// again. mu is held.
func (s *side) learnObjectEnd(sent mono.Time, found protocol.Renewal) {
	watch := s.account.engine.watchdog
	var end mono.Time
	if found.Ends {
		end = watch.Trust(sent, found.End)
	}
	if sent < s.ObjectAsOf && end != s.Object {
		watch.Check(s.entry)
		if end.IsZero() || !s.Object.IsZero() && s.Object < end {
			return
		}
	}
	s.ObjectAsOf = mono.Now()
	if end != s.Object {
		s.setObjectEnd(end)
	}
}

// counts is how often the owner holds this side, as far as we know.
func (s *side) counts() int {
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	return s.Possible()
}

// beginCohort notes that the queue waits for the hold to pass on. mu is held.
func (s *side) beginCohort(queue *queue, granted mono.Time) {
	if queue == nil {
		return
	}
	lasts := slice
	if queue.Unheard() {
		lasts = longestSlice
	}
	s.cohort = &cohort{side: s, queue: queue, since: granted, until: granted.Add(lasts), holds: 1}
}

// endCohort has the queue ask again, and nobody join. mu is held.
func (s *side) endCohort() {
	if s.cohort != nil {
		s.cohort.end(0)
		s.cohort = nil
	}
}

// Refusal is the error of a waiter whose wait ends while the lock passes on in this process.
func (s *side) Refusal() error {
	a := s.account
	a.mu.Lock()
	defer a.mu.Unlock()
	ttl := time.Duration(0)
	if s.entry != nil {
		ttl = max(0, mono.Until(a.engine.watchdog.Deadline(s.entry)))
	}
	return a.engine.Errors.Locked(s.lock.Name, a.owner, ttl)
}

// lastsFor reports whether a hold may be trusted for most of its lease; or, if nobody has confirmed yet that it has that, for long
// enough to do so. mu is held.
func (s *side) lastsFor(lease time.Duration, now mono.Time) bool {
	e := s.account.engine
	left := e.watchdog.Deadline(s.entry).Sub(now) + e.Margin
	if s.unconfirmed {
		return left > min(lease, protocol.LongestGrant)/2
	}
	return left > lease-lease/4
}
