package dashboard

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// How much is remembered.
const (
	mostTrails  = 2_000 // locks that are followed
	mostSamples = 300   // moments of each, and of all together
	mostEnded   = 60    // holds of each that have ended, and waits
	mostEvents  = 50
	// mostLasting is how many holds of each that last, and how many waits, are kept if not all of them were read: some of those that are not seen
	// any more may be over.
	mostLasting = 300
	// idleFor is for how long a lock that nobody holds or waits for is remembered.
	idleFor = 30 * time.Minute
)

// ending is how a hold or a wait has ended, as far as that can be known from outside.
type ending string

const (
	// running is none.
	running ending = ""
	// released says that it was gone before its lease could run out: it was given back, or taken away.
	released ending = "released"
	// ranOut says that it was last seen with less than half of its lease left, so a renewal was missed, and was gone
	// when the lease was over. Its holder has died or was cut off, or it was a lease that nobody renews.
	ranOut ending = "ran_out"
	// unclear says that its lease could have run out between two looks, or not.
	unclear ending = "unclear"
	// taken says that somebody has taken it away by this dashboard.
	taken ending = "taken"
	// acquired says of a wait that it was for something, and left that it was not.
	acquired ending = "acquired"
	left     ending = "left"
)

// span is a hold that was seen, or the wait of one in a line: that has an owner, and neither a mode nor a lease.
type span struct {
	owner, mode, who string
	since            time.Time     // as Redis reports it; zero: not known
	first, last      time.Time     // when it was seen
	ends             time.Time     // when its lease was to end, as seen last; zero: never
	longest          time.Duration // the longest that it was seen to have left
	gone             time.Time     // when it was seen to be gone
	how              ending
}

// began returns when the hold or the wait began, as far as that is known.
func (s *span) began() time.Time {
	if s.since.IsZero() {
		return s.first
	}
	return s.since
}

// see notes that it is held.
func (s *span) see(by survey.Holder, at time.Time) {
	s.who, s.last, s.ends = present.Who(by.Who, by.Owner), at, time.Time{}
	if s.since.IsZero() {
		s.since = by.Since
	}
	if by.TTL != holdfast.NoExpiry {
		s.ends, s.longest = at.Add(by.TTL), max(s.longest, by.TTL)
	}
}

// is reports whether it is the same hold.
func (s *span) is(by survey.Holder) bool {
	return s.owner == by.Owner && s.mode == by.Mode && (s.since.IsZero() || by.Since.IsZero() || s.since.Equal(by.Since))
}

// end notes that it was gone at a moment, which is not before it was.
func (s *span) end(at time.Time) {
	s.gone = at
	switch rest := s.ends.Sub(s.last); {
	case s.ends.IsZero() || at.Before(s.ends):
		s.how = released
	case rest <= s.longest/2:
		s.how, s.gone = ranOut, s.ends
	default:
		s.how = unclear
	}
}

// sample is what one look has shown.
type sample struct {
	at            time.Time
	held, waiting int
}

// trail is what was seen of one lock.
type trail struct {
	first, last  time.Time // when it was looked at
	active       time.Time // when somebody held it or waited for it
	samples      []sample
	holds        []*span // that last
	ended        []*span
	waits        []*span
	endedWaits   []*span
	waitingSince time.Time // without a break; zero: nobody waits
	// contended is for how long somebody waited, and followed for how long it was looked at.
	contended, followed time.Duration
	longestWait         time.Duration // of one in line; without a line, for which somebody waited without a break
	mostWaiting         int
	holdsSeen, lost     int
}

// event is something that somebody may want to hear of.
type event struct {
	seq       int
	at        time.Time
	name, who string
	how       ending
}

// history is what was seen since the beginning.
type history struct {
	trails  map[string]*trail
	samples []sample
	events  []event
	told    int // events
	lost    int
	full    bool // there was a lock that is not followed
}

func newHistory() *history { return &history{trails: map[string]*trail{}} }

// keep adds to a list of which the oldest goes if it is full.
func keep[T any](list []T, one T, most int) []T {
	if len(list) >= most {
		list = slices.Delete(list, 0, len(list)-most+1)
	}
	return append(list, one)
}

// scanned notes what a whole look has shown, which began and ended at these moments. Where the look was cut short, what
// it did not find may be there.
func (h *history) scanned(locks []survey.Lock, began, ended time.Time, whole bool) {
	h.prune(ended)
	all := sample{at: ended}
	found := make(map[string]struct{}, len(locks))
	for _, l := range locks {
		found[l.Name] = struct{}{}
		all.waiting += l.Waiting
		if l.State == survey.Held {
			all.held++
		}
		h.see(l, true)
	}
	h.samples = keep(h.samples, all, mostSamples)
	if !whole {
		return
	}
	for name, t := range h.trails {
		// One that was seen during the look may have come behind it.
		if _, there := found[name]; !there && !t.last.After(began) {
			h.observe(t, survey.Lock{Name: name, At: ended})
		}
	}
}

// prune forgets what was idle for long, and all that is idle if there is no room.
func (h *history) prune(now time.Time) {
	crowded := len(h.trails) >= mostTrails
	for name, t := range h.trails {
		idle := len(t.holds) == 0 && t.waitingSince.IsZero()
		if idle && (crowded || now.Sub(t.active) > idleFor) {
			delete(h.trails, name)
		}
	}
	h.full = false
}

// see notes how one lock stands. It begins to follow it if that is wanted.
func (h *history) see(l survey.Lock, follow bool) {
	t := h.trails[l.Name]
	switch {
	case t == nil && !follow:
		return
	case t == nil && len(h.trails) >= mostTrails:
		h.full = true
		return
	case t == nil:
		t = &trail{first: l.At, active: l.At}
		h.trails[l.Name] = t
	}
	h.observe(t, l)
}

// observe adds one look to a trail.
func (h *history) observe(t *trail, l survey.Lock) {
	if !l.At.After(t.last) {
		return // it is an older look
	}
	if !t.last.IsZero() {
		gap := l.At.Sub(t.last)
		t.followed += gap
		if !t.waitingSince.IsZero() {
			t.contended += gap
		}
	}
	t.last = l.At
	if l.HolderCount > 0 || l.Waiting > 0 {
		t.active = l.At
	}
	t.seeWaiting(l)
	for _, one := range t.seeHolders(l) {
		h.ended(t, one, l.Name)
	}
	t.samples = keep(t.samples, sample{at: l.At, held: l.HolderCount, waiting: l.Waiting}, mostSamples)
}

// ended notes that a hold of a trail has ended.
func (h *history) ended(t *trail, one *span, name string) {
	t.ended = keep(t.ended, one, mostEnded)
	if one.how == ranOut {
		t.lost++
		h.lost++
	}
	if one.how == ranOut || one.how == taken {
		h.tell(event{at: one.gone, name: name, who: one.who, how: one.how})
	}
}

// tell keeps an event.
func (h *history) tell(e event) {
	h.told++
	e.seq = h.told
	h.events = keep(h.events, e, mostEvents)
}

// seeHolders notes who holds it, and returns the holds that have ended. Where not all holders were read, one that is missing may be
// among the others.
func (t *trail) seeHolders(l survey.Lock) (ended []*span) {
	for _, by := range l.Holders {
		if i := slices.IndexFunc(t.holds, func(h *span) bool { return h.is(by) }); i >= 0 {
			t.holds[i].see(by, l.At)
			continue
		}
		one := &span{owner: by.Owner, mode: by.Mode, first: l.At}
		one.see(by, l.At)
		t.holds = append(t.holds, one)
		t.holdsSeen++
	}
	t.holds = crowded(t.holds, l.At)
	all := len(l.Holders) >= l.HolderCount
	t.holds = slices.DeleteFunc(t.holds, func(h *span) bool {
		over := h.last.Before(l.At) && (all || !h.ends.IsZero() && h.ends.Before(l.At))
		if over {
			h.end(l.At)
			ended = append(ended, h)
		}
		return over
	})
	return ended
}

// seeWaiting notes how many wait, and of a line who does.
func (t *trail) seeWaiting(l survey.Lock) {
	t.mostWaiting = max(t.mostWaiting, l.Waiting)
	switch {
	case l.Waiting == 0:
		t.waitingSince = time.Time{}
	case t.waitingSince.IsZero():
		t.waitingSince = l.At
	}
	t.seeLine(l)
	switch {
	case len(t.waits) > 0:
		for _, w := range t.waits {
			t.longestWait = max(t.longestWait, l.At.Sub(w.began()))
		}
	case !t.waitingSince.IsZero() && !l.AllInLine():
		t.longestWait = max(t.longestWait, l.At.Sub(t.waitingSince))
	}
}

func (t *trail) seeLine(l survey.Lock) {
	if l.Line > 0 {
		for _, by := range l.Waiters {
			i := slices.IndexFunc(t.waits, func(w *span) bool { return w.owner == by.Owner })
			if i < 0 {
				i = len(t.waits)
				t.waits = append(t.waits, &span{owner: by.Owner, first: l.At})
			}
			w := t.waits[i]
			w.who, w.last = present.Who(by.Who, by.Owner), l.At
			if w.since.IsZero() {
				w.since = by.Since
			}
		}
		if len(l.Waiters) < l.Line {
			t.waits = crowded(t.waits, l.At)
			return // who is missing may stand further behind
		}
	}
	t.waits = slices.DeleteFunc(t.waits, func(w *span) bool {
		over := w.last.Before(l.At)
		if over {
			w.gone, w.how = l.At, left
			if slices.ContainsFunc(l.Holders, func(h survey.Holder) bool { return h.Owner == w.owner }) {
				w.how = acquired
			}
			t.endedWaits = keep(t.endedWaits, w, mostEnded)
		}
		return over
	})
}

// crowded forgets those that this look has not shown, if there are too many.
func crowded(lasting []*span, at time.Time) []*span {
	if len(lasting) <= mostLasting {
		return lasting
	}
	return slices.DeleteFunc(lasting, func(one *span) bool { return one.last.Before(at) })
}

// takenAway notes that a lock was taken away by this dashboard, from whoever held it then. A look may have come between, and have
// seen that they hold it no more, but not why.
func (h *history) takenAway(l survey.Lock, at time.Time) {
	t := h.trails[l.Name]
	if t == nil {
		t = &trail{} // of what nobody follows
	}
	end := func(one *span) bool {
		one.gone, one.how = at, taken
		h.ended(t, one, l.Name)
		return true
	}
	for _, by := range l.Holders {
		if i := slices.IndexFunc(t.holds, func(one *span) bool { return one.is(by) }); i >= 0 {
			end(t.holds[i])
			t.holds = slices.Delete(t.holds, i, i+1)
			continue
		}
		i := slices.IndexFunc(t.ended, func(one *span) bool { return one.is(by) && !one.gone.Before(l.At) })
		if i >= 0 && t.ended[i].how == ranOut {
			continue // as was told
		}
		if i >= 0 {
			t.ended[i].gone, t.ended[i].how = at, taken
		}
		h.tell(event{at: at, name: l.Name, who: present.Who(by.Who, by.Owner), how: taken})
	}
	if len(l.Holders) < l.HolderCount { // it was taken from others, too
		t.holds = slices.DeleteFunc(t.holds, end)
	}
}
