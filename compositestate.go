package holdfast

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// quorum counts the parts of a composite, and decides whether they are enough.
type quorum struct {
	of, need int     // how many parts there are, and how many of them have to live: neither changes
	members  []*Hold // the acquired parts, also those that have ended since
	live     int     // how many of them live
	missed   []error // why the others could not be acquired, or ended
}

// join counts a part that was acquired.
func (q *quorum) join(part *Hold) {
	q.members = append(q.members, part)
	q.live++
}

// failed counts a part that could not be acquired.
func (q *quorum) failed(why error) { q.missed = append(q.missed, why) }

// ended counts a part that was acquired, and has ended.
func (q *quorum) ended(why error) {
	q.live--
	q.missed = append(q.missed, why)
}

// reached reports whether enough parts live.
func (q *quorum) reached() bool { return q.live >= q.need }

// outOfReach reports whether too few parts would live even if each that is still being acquired came to live.
func (q *quorum) outOfReach() bool { return len(q.missed) > q.of-q.need }

// complete reports whether each part was acquired, or could not be.
func (q *quorum) complete() bool { return q.live+len(q.missed) == q.of }

// loss is why a quorum is lost; why is what the last part has died of.
func (q *quorum) loss(why error) error {
	if q.need < q.of {
		return fmt.Errorf("%d of %d parts live: %w", q.live, q.of, why)
	}
	return why
}

// terms are what the parts of a composite have been set to. A part that joins later is set to them, too.
type terms struct {
	retainedUntil mono.Time     // others do not get the parts before that; zero: when they are unlocked
	lease         time.Duration // of every part, which is not renewed; 0: parts are renewed
}

// phase is where a composite is on its way, which goes from gathering to failed, or through held to lost; and from each of them to over.
type phase int

const (
	phaseGathering phase = iota // its parts are being acquired
	phaseFailed                 // too many of them could not be acquired, or have ended meanwhile
	phaseHeld                   // it was handed out to the caller
	phaseLost                   // too few of its parts live
	phaseOver                   // it was unlocked, or what was acquired was given back
)

// lifetime is how far a composite has come.
type lifetime struct {
	phase phase
	since mono.Time       // when it was handed out; zero: it was not
	why   error           // of its phase: why it has failed, is lost or over; nil while it is gathering or held
	atEnd func(why error) // is told of the end, once; nil: nobody wants to know
}

// begin notes that the composite is handed out.
func (l *lifetime) begin() { l.phase, l.since = phaseHeld, mono.Now() }

// end moves the composite on to a phase after its end.
func (l *lifetime) end(to phase, why error) {
	before := l.why
	l.phase, l.why = to, why
	if before == nil && l.atEnd != nil {
		l.atEnd(why)
	}
}

// whenEnded has f told of the end; at once if that has come.
func (l *lifetime) whenEnded(f func(why error)) {
	if l.why != nil {
		f(l.why)
		return
	}
	l.atEnd = f
}
