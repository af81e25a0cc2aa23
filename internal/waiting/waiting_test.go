package waiting

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// These are rules that cost no safety if they are broken, so the searches need not notice.

// The next request is due when Redis says, but without an entry on the waitlist not later than LongestSleep.
func TestWhenToAskAgain(t *testing.T) {
	for _, c := range []struct {
		what  string
		lists Lists
		reply Event
		want  time.Duration
	}{
		{"unlisted, the key ends soon", IfSubscribed, Refused{Retry: 200}, 200},
		{"unlisted, the key ends late", IfSubscribed, Refused{Retry: 400}, 300},
		{"unlisted, the key does not end", IfSubscribed, Refused{Retry: -1}, 300},
		{"no waitlist, the key ends late", Never, Refused{Retry: 400}, 300},
		{"listed", IfSubscribed, Refused{Retry: 400, Listed: true}, 400},
		{"listed, without a time", IfSubscribed, Refused{Retry: -1, Listed: true}, 300},
		{"fair, the client does not receive grants", Always, Refused{Retry: 400}, 400},
		{"no reply", IfSubscribed, Failed{Transient: true}, 50},
	} {
		w := in(Requesting, tablePolicy)
		w.policy.Lists = c.lists
		if w.On(now, c.reply, Lore{}); w.Until() != now.Add(c.want) {
			t.Errorf("%s: after %v, not %v", c.what, w.Until().Sub(now), c.want)
		}
	}
	w := in(Requesting, Policy{LongestSleep: math.MaxInt64})
	if w.On(now, Refused{Retry: time.Hour}, Lore{}); w.Until() != now.Add(time.Hour) {
		t.Error("a waiter that polls pauses for", w.Until().Sub(now))
	}
	w = in(Requesting, tablePolicy)
	w.On(now, Refused{Retry: 20, Listed: true}, Lore{})
	for _, c := range []struct{ after, want time.Duration }{{30, 20}, {7, 7}, {9, 7}} {
		if w.On(now, Retry{ID: "request 2", After: c.after}, Lore{}); w.Until() != now.Add(c.want) {
			t.Errorf("after a message that says %d, a request is due after %d", c.after, w.Until().Sub(now))
		}
	}
}

// Without a waitlist, the next head sleeps as long as the one before would have. With one it sends a request: its entry is its own.
func TestNextHead(t *testing.T) {
	for lists, want := range map[Lists]State{Never: Asleep, IfSubscribed: Due, Always: Due} {
		w := in(Behind, Policy{Lists: lists})
		if w.On(now, Head{}, Lore{At: now + 9}); w.State() != want || want == Asleep && w.Until() != now+9 {
			t.Error(lists, w.State(), w.Until())
		}
	}
}

// The head whose predecessor failed does so, too, unless it has come just now.
func TestSharedFailure(t *testing.T) {
	w := in(Behind, tablePolicy)
	if w.On(tablePolicy.SharesFailureAt-1, Head{Failed: true}, Lore{}); w.State() != Due {
		t.Error("one that has just come does not try:", w.State())
	}
}

// The deadline of a hold counts from the request that was granted. Of two, the later one says more.
func TestGrantSent(t *testing.T) {
	w := in(Due, tablePolicy)
	w.requests = []Request{{"request 1", now - 9}, {"request 2", now - 4}, {"request 3", now - 2}}
	w.on(Grant{"request 2"}, Grant{"request 1"}, Slot{})
	if w.State() != Granted || w.GrantSent() != now-4 {
		t.Error(w.State(), w.GrantSent())
	}
	w = in(Granted, tablePolicy)
	if !w.GrantSent().IsZero() {
		t.Error("a reply has granted the lock, and the hold counts from", w.GrantSent())
	}
}

// A hold begins with a grant message only if it may, and while enough of the grant is left.
func TestLittleOfAGrant(t *testing.T) {
	for _, c := range []struct {
		sent  mono.Time
		valid time.Duration
		least time.Duration
		want  State
	}{{now - 10, 20, 10, Granted}, {now - 11, 20, 10, Requesting}, {now - 30, 20, 10, Requesting}, {now, 0, 0, Requesting}} {
		p := tablePolicy
		p.GrantValid, p.GrantMin = c.valid, c.least
		w := in(Due, p)
		granted(c.sent)(w)
		if w.On(now, Slot{}, Lore{}); w.State() != c.want {
			t.Errorf("%+v: %v", c, w.State())
		}
	}
}

// A refusal of a request with an ID supersedes those before it. A failure and a plain request supersede none.
func TestSuperseded(t *testing.T) {
	for _, c := range []struct {
		before  []Event // after a refusal of request 1
		reply   Event
		count   []string
		forgets int
	}{
		{[]Event{Slot{Subscribed: true}}, Refused{}, []string{"request 2"}, 1},
		{[]Event{Slot{Subscribed: true}}, Failed{Transient: true}, []string{"request 1", "request 2"}, 0},
		{[]Event{Slot{Subscribed: true}, Failed{Transient: true}, Woken{}, Slot{}}, Refused{}, []string{"request 1", "request 2"}, 0},
		{[]Event{Slot{Subscribed: true}, Failed{Transient: true}, Woken{}, Slot{Subscribed: true}}, Refused{}, []string{"request 3"}, 2},
		{[]Event{Slot{}}, Refused{}, []string{"request 1"}, 0},
	} {
		w := in(Due, tablePolicy)
		w.on(c.before...)
		do := w.On(now, c.reply, Lore{})
		for _, id := range []string{"request 1", "request 2", "request 3"} {
			counts, got := slices.Contains(c.count, id), w.clone()
			if got.On(now, Grant{id}, Lore{}); (got.State() == Due) != counts {
				t.Errorf("%v, %#v: %s counts: %v", c.before, c.reply, id, !counts)
			}
		}
		if len(do.Forget) != c.forgets || slices.ContainsFunc(do.Forget, func(r Request) bool { return slices.Contains(c.count, r.ID) }) {
			t.Errorf("%v, %#v: forgets %v", c.before, c.reply, do.Forget)
		}
	}
}

// An entry that is lost once is no reason to stop using the waitlist.
func TestDropped(t *testing.T) {
	w := in(Asleep, tablePolicy)
	for i, want := range []bool{false, true, true} {
		w.on(Woken{}, Slot{Subscribed: true})
		if do := w.On(now, Refused{Listed: true, New: true}, Lore{}); do.Unsubscribed != want {
			t.Error(i, do)
		}
	}
	w = in(Asleep, tablePolicy)
	for range 3 { // an entry that it has never had is not lost
		w.on(Woken{}, Slot{}, Refused{}, Woken{}, Slot{Subscribed: true})
		if do := w.On(now, Refused{Listed: true, New: true}, Lore{}); do.Unsubscribed {
			t.Error("an unlisted waiter has lost its entry")
		}
	}
}

// A waiter listens where it was told to, also if Redis does not reply to its next request.
func TestListensAfterAFailure(t *testing.T) {
	for _, c := range []struct {
		refused Refused
		want    Listen
	}{{Refused{Listed: true}, ListenOff}, {Refused{Listed: true, Beside: true}, ListenOn}, {Refused{}, ListenOn}} {
		w := in(Requesting, tablePolicy)
		w.on(c.refused, Woken{}, Slot{})
		if do := w.On(now, Failed{Transient: true}, Lore{}); do.Listen != c.want {
			t.Errorf("%+v: %v", c.refused, do)
		}
	}
	w := in(Requesting, Policy{})
	if do := w.On(now, Refused{}, Lore{}); do.Listen != ListenAsBefore {
		t.Error("a waiter that polls listens:", do)
	}
}

// A waiter to which Redis has replied, itself or a head before it, tolerates an outage, and reports it once.
func TestOutage(t *testing.T) {
	w := &tried{Wait: New(tablePolicy, false), now: now}
	w.lore.InTouch = true
	w.on(Head{}, Slot{})
	for i, want := range []Do{
		{Listen: ListenOn, Remember: true, FreeSlot: true, ReportOutage: true},
		{Listen: ListenOn, Remember: true, FreeSlot: true},
		{Listen: ListenOn, Remember: true, FreeSlot: true},
		{FreeSlot: true, PassOn: true, ShareFailure: true},
	} {
		w.now = now + mono.Time(i)*99/2
		if i == 3 {
			w.now = now + 100
		}
		w.lore = Lore{InTouch: i == 0} // the first failure that it goes on after says so itself
		if got := w.On(w.now, Failed{Transient: true}, w.lore); got.String() != want.String() {
			t.Errorf("failure %d: %v", i, got)
		}
		w.on(Woken{}, Slot{})
	}
	if w.State() != Over {
		t.Error(w.State())
	}
	queued, first := New(tablePolicy, true), Begun(tablePolicy, true, "", now)
	queued.On(now, Head{}, Lore{})
	queued.On(now, Slot{}, Lore{})
	for _, w := range []Wait{queued, first} {
		if w.On(now, Failed{Transient: true}, Lore{}); w.State() != Asleep {
			t.Error("a call that knows a refusal gives up:", w.State())
		}
	}
}

// A reply ends an outage: the next one begins with the next failure, and is reported.
func TestOutageEnds(t *testing.T) {
	w := in(Requesting, tablePolicy)
	w.now = now - 100
	w.on(Failed{Transient: true}, Woken{}, Slot{}, Refused{}, Woken{}, Slot{})
	if do := w.On(now, Failed{Transient: true}, Lore{}); w.State() != Asleep || !do.ReportOutage {
		t.Error(w.State(), do)
	}
}

// Begun is where New is after its first request was sent.
func TestBegun(t *testing.T) {
	for _, id := range []string{"", "request 1"} {
		want := &tried{Wait: New(tablePolicy, false), now: now}
		want.on(Head{}, Slot{Subscribed: id != ""})
		if got := Begun(tablePolicy, false, id, now); got.State() != Requesting || got.send != want.send || len(got.requests) != len(want.requests) ||
			got.registered != want.registered {
			t.Errorf("%+v, want %+v", got, want.Wait)
		}
	}
}

// A leave is due of what may stand in Redis.
func TestLeaveDue(t *testing.T) {
	plain, registers := Policy{}, Policy{Registers: true}
	for _, c := range []struct {
		what         string
		policy       Policy
		state        State
		due, inDoubt bool // the latter: if an attempt is in doubt
	}{
		{"no request was sent", tablePolicy, Behind, false, false},
		{"listed", tablePolicy, Asleep, true, true},
		{"given up", tablePolicy, Over, true, true},
		{"handed off", tablePolicy, HandedOff, true, true},
		{"granted", tablePolicy, Granted, false, true},
		{"plain requests", plain, Over, false, false},
		{"plain requests that leave something", registers, Over, true, true},
	} {
		w := in(c.state, c.policy)
		if w.LeaveDue(false) != c.due || w.LeaveDue(true) != c.inDoubt {
			t.Errorf("%s: %v, and in doubt %v", c.what, w.LeaveDue(false), w.LeaveDue(true))
		}
	}
	w := Begun(tablePolicy, false, "request 1", now)
	if w.LeaveDue(false) || !w.LeaveDue(true) {
		t.Error("a request without a reply may be listed later")
	}
}
