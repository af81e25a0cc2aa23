package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// began is when the looks of these tests begin.
var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * float64(time.Second)))
}

const forever = -1

// looked is a look at one mutex: who holds it, and for how many seconds more.
func looked(at float64, owner string, left float64, waiting int) survey.Lock {
	l := survey.Lock{Name: "job", Kind: survey.Mutex, State: survey.Free, At: after(at), Waiting: waiting}
	if owner != "" {
		l.State, l.HolderCount = survey.Held, 1
		l.Holders = []survey.Holder{{Owner: owner, Count: 1, TTL: time.Duration(left * float64(time.Second))}}
		if left == forever {
			l.Holders[0].TTL = holdfast.NoExpiry
		}
	}
	return l
}

// scans has whole looks, each of which finds one lock or none.
func scans(h *history, all ...survey.Lock) {
	for _, l := range all {
		found := []survey.Lock{l}
		if l.HolderCount == 0 && l.Waiting == 0 {
			found = nil // it has left nothing
		}
		h.scanned(found, l.At.Add(-10*time.Millisecond), l.At, true)
	}
}

// TestEndings says of a hold no more than follows from its lease.
func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looks []survey.Lock
		want  ending
	}{
		"given back":               {[]survey.Lock{looked(0, "a", 30, 0), looked(2, "a", 28, 0), looked(4, "", 0, 0)}, released},
		"handed to another":        {[]survey.Lock{looked(0, "a", 30, 0), looked(2, "b", 30, 0)}, released},
		"lease over, not renewed":  {[]survey.Lock{looked(0, "a", 30, 0), looked(14, "a", 16, 0), looked(28, "a", 2, 0), looked(31, "", 0, 0)}, ranOut},
		"over, and another has it": {[]survey.Lock{looked(0, "a", 30, 0), looked(28, "a", 2, 0), looked(31, "b", 30, 0)}, ranOut},
		"renewed, then away":       {[]survey.Lock{looked(0, "a", 30, 0), looked(10, "a", 29, 0), looked(45, "", 0, 0)}, unclear},
		"seen but once":            {[]survey.Lock{looked(0, "a", 1, 0), looked(5, "", 0, 0)}, unclear},
		"without an end":           {[]survey.Lock{looked(0, "a", forever, 0), looked(5000, "", 0, 0)}, released},
		"goes on":                  {[]survey.Lock{looked(0, "a", 30, 0), looked(20, "a", 10, 0), looked(29, "a", 1, 0)}, running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory()
			scans(h, c.looks...)
			trail := h.trails["job"]
			var got ending
			if len(trail.ended) > 0 {
				got = trail.ended[0].how
			}
			lost := 0
			if c.want == ranOut {
				lost = 1
			}
			if got != c.want || h.lost != lost || trail.lost != lost || len(h.events) != lost {
				t.Errorf("%q, want %q; %d lost, %d events", got, c.want, h.lost, len(h.events))
			}
		})
	}
}

// TestAbsence draws no conclusion from looks that could not have seen a lock.
func TestAbsence(t *testing.T) {
	t.Parallel()
	h := newHistory()
	scans(h, looked(0, "a", 30, 0))
	h.scanned(nil, after(1), after(2), false) // it was cut short
	if open := len(h.trails["job"].holds); open != 1 {
		t.Errorf("%d holds go on after a look that was cut short", open)
	}
	h.see(looked(3.5, "b", 30, 0), false) // while a look is under way that does not find it any more
	h.scanned(nil, after(3), after(4), true)
	if trail := h.trails["job"]; len(trail.holds) != 1 || trail.holds[0].owner != "b" {
		t.Errorf("a lock that has come behind a look is gone: %+v", trail.holds)
	}
	h.see(looked(1, "c", 30, 0), false) // it was read before
	if trail := h.trails["job"]; len(trail.holds) != 1 || trail.holds[0].owner != "b" {
		t.Errorf("an older look counts: %+v", trail.holds)
	}
	h.scanned(nil, after(5), after(6), true)
	if open := len(h.trails["job"].holds); open != 0 {
		t.Errorf("%d holds go on", open)
	}
	if h.see(survey.Lock{Name: "other", At: after(6)}, false); h.trails["other"] != nil {
		t.Error("a lock is followed that no look at all has found")
	}
}

// TestManyHolders does not take a reader for gone who is only not listed.
func TestManyHolders(t *testing.T) {
	t.Parallel()
	h := newHistory()
	l := looked(0, "a", 30, 0)
	scans(h, l)
	l = looked(2, "b", 30, 0)
	l.HolderCount = 500
	scans(h, l)
	if open := len(h.trails["job"].holds); open != 2 {
		t.Errorf("%d holds go on", open)
	}
}

// TestContention adds up for how long somebody waited, and who in a line got the lock.
func TestContention(t *testing.T) {
	t.Parallel()
	h := newHistory()
	line := func(at float64, holder string, waiters ...string) survey.Lock {
		l := looked(at, holder, 30, len(waiters))
		l.Kind, l.Line = survey.Fair, len(waiters)
		for _, w := range waiters {
			l.Waiters = append(l.Waiters, survey.Waiter{Owner: w})
		}
		return l
	}
	scans(h, line(0, "a"), line(2, "a", "b", "c"), line(6, "a", "b", "c"), line(8, "b"), line(10, "b"))
	trail := h.trails["job"]
	if trail.followed != 10*time.Second || trail.contended != 6*time.Second || trail.mostWaiting != 2 || trail.longestWait != 4*time.Second || trail.holdsSeen != 2 {
		t.Errorf("%+v", trail)
	}
	if len(trail.endedWaits) != 2 || trail.endedWaits[0].how != acquired || trail.endedWaits[1].how != left {
		t.Errorf("%+v", trail.endedWaits)
	}
	v := trail.view(after(11))
	if v.Contended != 6000 || v.WaitingFor != -1 || len(v.Waits) != 2 || v.Waits[0].How != acquired || v.Waits[0].From != 9000 || v.Waits[0].To != 3000 || v.Holds[1].To != -1 {
		t.Errorf("%+v", v)
	}
}

// TestLineBesideListeners follows the line of a mutex, for which others wait who do not stand there.
func TestLineBesideListeners(t *testing.T) {
	t.Parallel()
	h := newHistory()
	line := func(at float64, listening int, waiters ...string) survey.Lock {
		l := looked(at, "a", 30, len(waiters)+listening)
		l.Line = len(waiters)
		for _, w := range waiters {
			l.Waiters = append(l.Waiters, survey.Waiter{Owner: w})
		}
		return l
	}
	scans(h, line(0, 1), line(2, 1, "b", "c"), line(4, 1, "c"), line(6, 1))
	trail := h.trails["job"]
	if len(trail.waits) != 0 || len(trail.endedWaits) != 2 || trail.endedWaits[1].owner != "c" || trail.longestWait != 6*time.Second {
		t.Errorf("%+v", trail)
	}
	var v lockView
	v.fill(line(6, 1, "b"), trail)
	if v.Line != 1 || v.AllInLine || v.Waiting != 2 || len(v.Waiters) != 1 {
		t.Errorf("%+v", v)
	}
}

// TestWaitsSince: a wait begins when the waiter joined the line, as Redis reports it, or when the waiter was first seen.
func TestWaitsSince(t *testing.T) {
	t.Parallel()
	h := newHistory()
	line := func(at float64, since time.Time) survey.Lock {
		l := looked(at, "a", 30, 2)
		l.Kind, l.Line = survey.Fair, 2
		l.Waiters = []survey.Waiter{{Owner: "b", Since: since}, {Owner: javaOwner}}
		return l
	}
	scans(h, line(0, time.Time{}), line(2, after(-10)))
	trail := h.trails["job"]
	if trail.longestWait != 12*time.Second || !trail.waits[0].began().Equal(after(-10)) || !trail.waits[1].began().Equal(after(0)) {
		t.Errorf("%+v", trail)
	}
	var v lockView
	v.fill(line(2, after(-10)), trail)
	if v.Waiters[0].Waited != 12_000 || v.Waiters[1].Waited != 2_000 {
		t.Errorf("%+v", v.Waiters)
	}
	v = lockView{}
	v.fill(line(2, after(-10)), nil) // it is not followed
	if v.Waiters[0].Waited != 12_000 || v.Waiters[1].Waited != -1 {
		t.Errorf("%+v", v.Waiters)
	}
}

// TestBounds has more locks, holds and moments than are remembered.
func TestBounds(t *testing.T) {
	t.Parallel()
	h := newHistory()
	var many []survey.Lock
	for i := range mostTrails + 500 {
		l := looked(0, fmt.Sprint("owner", i), 30, 0)
		l.Name = fmt.Sprint("lock", i)
		many = append(many, l)
	}
	h.scanned(many, after(0), after(0), true)
	if len(h.trails) != mostTrails || !h.full {
		t.Errorf("%d locks are followed, full: %v", len(h.trails), h.full)
	}
	h.scanned(nil, after(1), after(1), true) // all have gone
	if h.scanned(many[len(many)-10:], after(2), after(2), true); h.trails[many[len(many)-1].Name] == nil || h.full {
		t.Errorf("there is no room for new ones among %d", len(h.trails))
	}
	for i := range 3 * mostSamples {
		scans(h, looked(float64(3+i), fmt.Sprint("owner", i), 30, 0))
	}
	trail := h.trails["job"]
	if len(trail.samples) != mostSamples || len(trail.ended) != mostEnded || len(h.samples) != mostSamples || trail.holdsSeen != 3*mostSamples {
		t.Errorf("%d moments, %d holds, %d moments of all", len(trail.samples), len(trail.ended), len(h.samples))
	}
	if last := trail.samples[len(trail.samples)-1].at; !last.Equal(after(float64(2 + 3*mostSamples))) {
		t.Errorf("the last moment is %v", last)
	}
	h.scanned(nil, after(5000), after(5000), true)
	if h.scanned(nil, after(9000), after(9000), true); len(h.trails) != 0 {
		t.Errorf("%d idle locks are remembered", len(h.trails))
	}
}

// TestCrowdThatChanges has each look show the first of a crowd, and others each time, as somebody may write who rewrites a lock: memory does
// not grow with what was seen.
func TestCrowdThatChanges(t *testing.T) {
	t.Parallel()
	const shown, crowd = 100, 1_000_000
	h := newHistory()
	for look := range 50 {
		l := survey.Lock{Name: "job", Kind: survey.RW, State: survey.Held, At: after(float64(look)), HolderCount: crowd, Line: crowd, Waiting: crowd}
		for i := range shown {
			owner := fmt.Sprintf("%d-%d", look, i)
			l.Holders = append(l.Holders, survey.Holder{Owner: owner, TTL: holdfast.NoExpiry})
			l.Waiters = append(l.Waiters, survey.Waiter{Owner: owner})
		}
		l.Waiters[0].Owner = "stays"
		scans(h, l)
	}
	trail := h.trails["job"]
	if len(trail.holds) > mostLasting+shown || len(trail.waits) > mostLasting+shown || len(trail.waits) < shown {
		t.Errorf("%d holds, %d waits", len(trail.holds), len(trail.waits))
	}
	if first := trail.waits[0]; first.owner != "stays" || !first.first.Equal(began) {
		t.Errorf("the one that was always shown is forgotten: %+v", first)
	}
}

// TestTakenAwayFromOne says so of that hold alone: not of the next one, not of an earlier one of the same owner, and not
// once more of one whose lease has run out first.
func TestTakenAwayFromOne(t *testing.T) {
	t.Parallel()
	next := newHistory()
	scans(next, looked(0, "a", 30, 0), looked(0.9, "b", 30, 0))
	next.takenAway(looked(0.5, "a", 29.5, 0), after(1))
	if len(next.events) != 1 || next.events[0].who != "a" || len(next.trails["job"].holds) != 1 {
		t.Errorf("%+v", next.events)
	}
	earlier := newHistory()
	scans(earlier, looked(0, "a", 30, 0), looked(1, "", 0, 0), looked(101, "", 0, 0))
	earlier.takenAway(looked(100.5, "a", 29.5, 0), after(101.2))
	if how := earlier.trails["job"].ended[0].how; how != released {
		t.Errorf("the earlier hold is %v now", how)
	}
	late := newHistory()
	scans(late, looked(0, "a", 30, 0), looked(28, "a", 2, 0), looked(31, "", 0, 0))
	late.takenAway(looked(29, "a", 1, 0), after(31.2))
	if len(late.events) != 1 || late.lost != 1 {
		t.Errorf("%+v, %d lost", late.events, late.lost)
	}
}

// TestTakenAway tells such holds from others.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	unseen := looked(0.5, "b", 30, 0)
	unseen.Name = "unseen"
	for name, between := range map[string][]survey.Lock{
		"before the next look":              nil,
		"when a look has seen that it left": {looked(0.9, "", 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			scans(h, looked(0, "a", 30, 0))
			scans(h, between...)
			h.takenAway(looked(0.5, "a", 29.5, 0), after(1))
			h.takenAway(unseen, after(1))
			scans(h, looked(2, "", 0, 0))
			if trail := h.trails["job"]; len(trail.ended) != 1 || trail.ended[0].how != taken || h.lost != 0 {
				t.Errorf("%+v", trail.ended)
			}
			if len(h.events) != 2 || h.events[0].who != "a" || h.events[1].name != "unseen" || h.events[1].who != "b" {
				t.Errorf("%+v", h.events)
			}
		})
	}
}
