package holdfast

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// This file ends holds that cannot be trusted any more, as the watchdog says.

// lost and longHeld are called by the watchdog.
func lost(e *entry, reason watchdog.Reason) { e.Value.lose(e, reason) }
func longHeld(e *entry)                     { e.Value.listen(e) }

// lose ends every hold of the owner, once. entry says which run of holds the
// news is of; nil means the present one.
func (s *ownerState) lose(entry *entry, reason watchdog.Reason) {
	s.mu.Lock()
	if s.lost != nil || entry != nil && entry != s.entry {
		s.mu.Unlock()
		return
	}
	why := s.lostError(s.because(reason, s.renewedLease() > 0))
	forget := s.keyEnd
	if reason == watchdog.NotHeld || mono.Now() < s.otherEnd { // it has gone, or does not go by itself
		forget = mono.Now()
	}
	s.lost = why
	if why.Reason == LostTaken {
		s.run.taken = why
	}
	s.endWatch()
	held := len(s.holds) > 0
	for _, h := range s.holds {
		h.lost, h.lastDeadline = why, s.deadline
		h.cancel(why)
		h.tellOver(why)
	}
	s.mu.Unlock()
	if !held {
		return
	}
	c := s.kind.client
	c.tasks.Go(func() {
		call.Sleep(c.closing, mono.Until(forget))
		if c.closing.Err() == nil { // else Close sees to it
			s.forget(why)
		}
	})
}

// overdue reports whether the holds may be trusted no more, and the watchdog is about to say so.
// s.mu is held.
func (s *ownerState) overdue() bool {
	return s.entry != nil && s.kind.client.watchdog.Deadline(s.entry) <= mono.Now()
}

// because says why holds are lost, which were being renewed or not. s.mu is held.
func (s *ownerState) because(reason watchdog.Reason, renewing bool) LostReason {
	c := s.kind.client.config
	over := func(end mono.Time) bool { // the deadline is somewhat before it, see [watchdog.Watchdog.Trust]
		return !end.IsZero() && mono.Until(end) < c.margin+max(c.lease, s.renewedLease())/50+10*time.Millisecond
	}
	switch {
	case reason == watchdog.NotHeld:
		return LostTaken
	case over(s.ends):
		return LostLeaseOver
	case over(s.maxHoldEnd):
		return LostMaxHoldOver
	case !renewing:
		return LostLeaseOver
	}
	return LostUnanswered
}

// lostError says why holds are lost. What failed last is told if that is why. s.mu is
// held.
func (s *ownerState) lostError(reason LostReason) *LostError {
	lost := &LostError{Name: s.kind.name, Reason: reason}
	if reason == LostUnanswered && s.failing != nil {
		lost.Err = s.failing
	}
	return lost
}

// forget lets go of lost holds once their lease has certainly run out: many users never unlock
// such a hold. Then the key is gone, and nothing is left to be given back, unless the owner has
// made it live for longer on the other side of a read-write lock.
func (s *ownerState) forget(why error) {
	s.mu.Lock()
	if s.lost != why { //nolint:errorlint // the same loss, not one like it
		s.mu.Unlock()
		return
	}
	forgotten := s.needed()
	s.holds = nil
	stands := mono.Now() < s.otherEnd
	if !stands {
		s.setCount(0)
	}
	unknown := s.deferred != nil
	s.mu.Unlock()
	if unknown || stands {
		s.releaseLater()
	}
	for range forgotten {
		s.unref() // each hold had one, or several that shared it
	}
}

// listen makes a long hold hear of a forced unlock, and says since when it lasts.
func (s *ownerState) listen(entry *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	channel := cmp.Or(s.kind.holderChannel, s.kind.requests.Channel(s.owner.String()))
	if s.entry == entry {
		s.endCohort() // those who wait here look after the lock again, as those of other processes do
	}
	if s.entry == entry && len(s.holds) > 0 {
		s.kind.client.presence.Holds(s, s.heldFields(), s.holds[0].since)
	}
	if s.entry == entry && s.subscription == nil && channel != "" {
		s.subscription = s.kind.client.hub.Join(channel, doubted{entry})
	}
}

// heldFields are those of the client's presence that are about this lock.
func (s *ownerState) heldFields() (fields []string) {
	if s.kind.permitIDs == nil {
		return []string{protocol.HeldField(s.owner.text, s.kind.name)}
	}
	for _, id := range s.kind.permitIDs() {
		fields = append(fields, protocol.HeldField(id, s.kind.name))
	}
	return fields
}

// doubted is a run of holds that has to be checked when its channel says something.
type doubted struct{ *entry }

// Notify is called by the hub.
func (d doubted) Notify() { d.Value.kind.client.watchdog.Check(d.entry) }

// NotifyAcquired is about those who wait.
func (doubted) NotifyAcquired() {}

// endWatch ends renewal and listening, has those who wait here ask again, and reports whether the holds could be
// trusted until now. s.mu is held.
func (s *ownerState) endWatch() bool {
	s.endCohort()
	if s.subscription != nil {
		s.subscription.Leave()
		s.subscription = nil
	}
	if s.entry == nil {
		return false
	}
	watch := s.kind.client.watchdog
	trusted := watch.Remove(s.entry)
	if s.entry.LongHeld() {
		s.kind.client.presence.Ended(s)
	}
	s.deadline = watch.Deadline(s.entry)
	s.entry = nil
	return trusted
}
