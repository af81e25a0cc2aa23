package ledger

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// Times are those of one run of holds. All may be zero: there is none.
type Times struct {
	// Trusted is until when the run could be trusted. It is set when the run is watched no more.
	Trusted mono.Time
	// MaxHold is when the longest time ends that a run may last.
	MaxHold mono.Time
	// Object is when the object ends that the holds are of, as a semaphore may, and the holds with it.
	Object mono.Time
	// ObjectAsOf is when the answer came that says so.
	ObjectAsOf mono.Time
	// Retained is until when others do not get the lock, whoever unlocks it.
	Retained mono.Time
}

// Until is the earlier of the ends that no renewal reaches beyond; zero: there is none.
func (t *Times) Until() mono.Time {
	if t.MaxHold.IsZero() || !t.Object.IsZero() && t.Object < t.MaxHold {
		return t.Object
	}
	return t.MaxHold
}

// Within cuts a lease, asked for now, to what [Times.MaxHold] leaves of it, in whole milliseconds.
func (t *Times) Within(now mono.Time, lease time.Duration) time.Duration {
	if t.MaxHold.IsZero() {
		return lease
	}
	return min(lease, t.MaxHold.Sub(now).Truncate(time.Millisecond))
}

// Life is until when the key may live by what one side has asked for.
type Life struct {
	underWay int32     // calls under way that let it live
	end      mono.Time // until when it may live, whatever is under way
	idleEnd  mono.Time // the same if nothing is under way
}

// Asked notes that a call is under way that lets the key live for ttl from when it arrives, within the timeout. It is
// paired with a call of Answered.
func (l *Life) Asked(now mono.Time, ttl, timeout time.Duration) {
	l.underWay++
	l.end = max(l.end, now.Add(ttl+timeout))
}

// Answered notes that such a call is over, and that what came of it lets the key live for ttl from now.
func (l *Life) Answered(now mono.Time, ttl time.Duration) {
	l.idleEnd = max(l.idleEnd, now.Add(ttl))
	if l.underWay--; l.underWay == 0 {
		l.end = l.idleEnd
	}
}

// Learned notes that Redis lets the key live for ttl from now at most.
func (l *Life) Learned(now mono.Time, ttl time.Duration) {
	l.idleEnd = max(l.idleEnd, now.Add(ttl))
	l.end = max(l.end, l.idleEnd)
}

// End is when the key will have gone, whatever is under way.
func (l *Life) End() mono.Time { return l.end }
