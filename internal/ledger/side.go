package ledger

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// State is how a side stands. The package draws them.
type State uint8

// The states of a side.
const (
	Free State = iota
	Held
	Surplus
	Owed
	Lost
)

func (s State) String() string {
	return [...]string{"free", "held", "surplus", "owed", "lost"}[s]
}

// Change is what Redis is asked for: to go from one count to another. A release finds From counts at most, and unless the
// run was lost Confirmed at least.
type Change struct{ From, To, Confirmed int }

// Side is one count of an owner in Redis, and the holds that need it. The zero Side is free.
type Side[V any] struct {
	Life
	Times

	// Token is the fencing token of the run; 0: none.
	Token int64

	holds     []*Hold[V] // handed out, and neither dropped nor forgotten
	one       [1]*Hold[V]
	possible  int
	confirmed int
	run       *Run
	firstRun  Run
	altered   bool // more was done in this run than to acquire it once
	// What may have its effect yet: acquires up to that count, and releases.
	openUpTo     int
	openReleases bool
	listed       bool // Redis may keep something for a waiter that has given up
	left         bool // a leave was sent beside an open acquire, and another is to follow
}

// State is how the side stands.
func (s *Side[V]) State() State {
	wanted := s.Wanted()
	switch {
	case len(s.holds) > 0 && s.run.lost != nil:
		return Lost
	case wanted > 0 && s.possible > wanted:
		return Surplus
	case wanted > 0:
		return Held
	case s.possible > 0:
		return Owed
	}
	return Free
}

// Wanted is how many counts the holds need: one each, but those that share one.
func (s *Side[V]) Wanted() int {
	sharing := s.Sharing()
	return len(s.holds) - sharing + min(sharing, 1)
}

// Sharing is how many holds share one count.
func (s *Side[V]) Sharing() (n int) {
	for _, h := range s.holds {
		if h.Shares {
			n++
		}
	}
	return n
}

// Holds are those that are handed out, lost ones included. They are not to be changed.
func (s *Side[V]) Holds() []*Hold[V] { return s.holds }

// Live is how many holds are handed out and not lost: all are lost, or none.
func (s *Side[V]) Live() int {
	if s.Lost() != nil {
		return 0
	}
	return len(s.holds)
}

// Possible is how many counts may stand in Redis.
func (s *Side[V]) Possible() int { return s.possible }

// Lost is why the run is lost; nil if it is not, or there is none.
func (s *Side[V]) Lost() error {
	if s.run == nil {
		return nil
	}
	return s.run.lost
}

// Run is that of the holds, or of the last ones.
func (s *Side[V]) Run() *Run { return s.run }

// RenewedLease is the longest lease of the holds that are to be renewed; 0 if none is.
func (s *Side[V]) RenewedLease() (longest time.Duration) {
	for _, h := range s.holds {
		if !h.Fixed {
			longest = max(longest, h.Lease)
		}
	}
	return longest
}

// Next is the change that one hold more needs. It is false if something has to be given back before, and an error if the
// run is lost in which the hold would be nested. Without holds a new run begins.
func (s *Side[V]) Next() (ch Change, ok bool, lost error) {
	wanted := s.Wanted()
	if s.possible > wanted {
		return Change{}, false, nil
	}
	if len(s.holds) == 0 {
		if s.run == nil {
			s.run = &s.firstRun
		} else {
			s.run = new(Run)
		}
		s.Retained, s.MaxHold, s.altered = 0, 0, false
	}
	return Change{From: wanted, To: wanted + 1}, true, s.run.lost
}

// Granted notes that Redis has made a change to acquire, and hands the hold out.
func (s *Side[V]) Granted(ch Change, h *Hold[V]) {
	s.Confirm(ch.To)
	s.altered = len(s.holds) > 0
	s.Join(h)
}

// Join hands out a hold that needs no change, since it shares a count that stands.
func (s *Side[V]) Join(h *Hold[V]) {
	if s.holds == nil {
		s.holds = s.one[:0]
	}
	s.holds = append(s.holds, h)
}

// Replace hands out a hold in the place of the only other one.
func (s *Side[V]) Replace(h *Hold[V]) { s.holds[0] = h }

// Alter notes that more is done with the run than to acquire it once.
func (s *Side[V]) Alter() { s.altered = true }

// Plain reports whether the run is as it was acquired, and nothing that was ever sent for it can have an effect any more:
// one count, known, that is renewed, and that nobody keeps from others.
func (s *Side[V]) Plain() bool {
	return s.State() == Held && s.possible == 1 && !s.altered && !s.holds[0].Fixed && s.Retained.IsZero() &&
		s.underWay == 0 && s.allClosed()
}

// Joinable reports whether others may share the run's one count.
func (s *Side[V]) Joinable() bool { return s.Live() > 0 && s.possible == 1 && !s.altered }

// Drop takes a hold off. Found is false if it was forgotten before. Freed says that it had a count that nobody needs now,
// which is to be given back.
func (s *Side[V]) Drop(h *Hold[V]) (found, freed bool) {
	wanted := s.Wanted()
	i := slices.Index(s.holds, h)
	if i < 0 {
		return false, false
	}
	s.holds = slices.Delete(s.holds, i, i+1)
	return true, s.Wanted() < wanted
}

// DropAll takes all holds off, and returns them, and how many counts they had.
func (s *Side[V]) DropAll() (holds []*Hold[V], counts int) {
	holds, counts = slices.Clone(s.holds), s.Wanted()
	s.holds = nil
	return holds, counts
}

// GiveBack is the change that gives back what is not handed out. It is false if there is nothing to give back.
func (s *Side[V]) GiveBack() (Change, bool) {
	wanted := s.Wanted()
	return Change{From: s.possible, To: wanted, Confirmed: s.confirmed}, s.possible > wanted
}

// Answer is what Redis has answered to a release.
type Answer uint8

// The answers to a release.
const (
	// Done: the count is what it was to be.
	Done Answer = iota
	// Missing: the owner does not hold the lock.
	Missing
	// Other: the owner holds the lock, but fewer times than there were to be left.
	Other
)

// Released notes the answer to a release. Repeated says that an earlier attempt of it may have had its effect. It reports
// whether Redis has lost what it should have had: then the run is lost, and nothing stands.
func (s *Side[V]) Released(ch Change, found Answer, repeated bool) (vanished bool) {
	if found == Done || found == Missing && ch.To == 0 && (ch.Confirmed == 0 || repeated) {
		s.Confirm(min(ch.To, s.possible)) // the run may have been forgotten meanwhile
		return false
	}
	return true
}

// Unanswered notes that a release was not answered: it may have taken what it was to take.
func (s *Side[V]) Unanswered(ch Change) { s.confirmed = min(s.confirmed, ch.To) }

// Confirm notes how many counts stand in Redis now, and reports whether that is fewer than might have stood.
func (s *Side[V]) Confirm(count int) (fewer bool) {
	fewer = count < s.possible
	s.possible, s.confirmed = count, count
	return fewer
}

// Stood notes that an attempt which nobody waits for may have raised the count so far.
func (s *Side[V]) Stood(count int) { s.possible = max(s.possible, count) }

// Open notes that attempts were not answered that may have their effect yet: acquires that set the count to at most upTo,
// or releases.
func (s *Side[V]) Open(upTo int, releases bool) {
	s.openUpTo = max(s.openUpTo, upTo)
	s.openReleases = s.openReleases || releases
}

// Ran notes that an open acquire has had its effect, or may have.
func (s *Side[V]) Ran() { s.Stood(s.openUpTo) }

// CloseAll notes that no attempt is open any more.
func (s *Side[V]) CloseAll() { s.openUpTo, s.openReleases = 0, false }

// allClosed reports whether no attempt is open.
func (s *Side[V]) allClosed() bool { return s.openUpTo == 0 && !s.openReleases }

// MarkListed notes that a call has ended for whose waiter Redis may keep an entry, a reservation or a grant, now or once an open
// acquire has run.
func (s *Side[V]) MarkListed() { s.listed = true }

// ClearListed notes that no leave is to be sent: the hold that stands is detached.
func (s *Side[V]) ClearListed() { s.listed, s.left = false, false }

// StartLeave reports whether to send a leave request now, and notes that the caller sends it, and frees the turn only after that.
// While an acquire is open, the side stays listed.
func (s *Side[V]) StartLeave() bool {
	due := s.leaveDue()
	if due {
		s.left = s.openUpTo > 0
		s.listed = s.left
	}
	return due
}

// leaveDue reports whether a leave request is to be sent, and may be. What stands after an earlier leave was granted to the same
// waiter.
func (s *Side[V]) leaveDue() bool {
	return s.listed && (s.State() == Free || s.left && s.State() == Owed)
}

// harmless reports whether no open attempt can change what is asked for next, and no leave is due. An acquire does nothing where
// as many counts stand as it sets; of a lost run nobody knows what stands.
func (s *Side[V]) harmless() bool {
	if s.leaveDue() {
		return false
	}
	if s.openUpTo == 0 {
		return !s.openReleases
	}
	return !s.openReleases && s.Lost() == nil && s.openUpTo <= s.Wanted()
}

// Why is the reason for which a run is lost now. NotHeld says that Redis does not know the owner; renewing, that it was to
// be renewed. A deadline is before the end that it comes from, by reserve at most.
func (s *Side[V]) Why(now mono.Time, notHeld, renewing bool, reserve time.Duration) Reason {
	over := func(end mono.Time) bool { return !end.IsZero() && end.Sub(now) < reserve }
	switch {
	case notHeld:
		return Taken
	case over(s.Object):
		return LeaseOver
	case over(s.MaxHold):
		return MaxHoldOver
	case !renewing:
		return LeaseOver
	}
	return Unanswered
}

// Lose notes that the run is lost, and why; taken says that Redis had it no more. It is false if it was lost before. The
// holds stay handed out until they are dropped, or forgotten.
func (s *Side[V]) Lose(why error, taken bool) bool {
	if s.Lost() != nil {
		return false
	}
	if s.run == nil {
		s.run = &s.firstRun
	}
	s.run.lost, s.run.taken = why, taken
	for _, h := range s.holds {
		h.Lost, h.Trusted = why, s.Trusted
	}
	return true
}

// Forget drops the holds of a lost run, if it is still that one. Stands says that the key may live on by what
// another side has asked for: then the counts are to be given back, else they have gone with it. It returns how many counts the
// holds had, and whether something is to be done: counts given back, an open attempt waited for, or a leave sent.
func (s *Side[V]) Forget(run *Run, stands bool) (counts int, fewer, unsettled bool) {
	if s.run != run || run.lost == nil {
		return 0, false, false
	}
	_, counts = s.DropAll()
	if !stands {
		fewer = s.Confirm(0)
	}
	return counts, fewer, stands || !s.allClosed() || s.listed
}
