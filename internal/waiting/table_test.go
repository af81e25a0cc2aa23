package waiting

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// The table has what every event does in every state. Events that have no row in a state do nothing there.

// now is when events of the table happen. Earlier ones happened before.
const now mono.Time = 1000

// tried is a wait at the moment of a row.
type tried struct {
	Wait

	now  mono.Time
	lore Lore
}

func (w *tried) on(all ...Event) {
	for _, e := range all {
		if do := w.On(w.now, e, w.lore); do.Send == WithID {
			w.Sent(fmt.Sprint("request ", len(w.requests)+1), w.now)
		}
	}
}

var tablePolicy = Policy{
	Lists: IfSubscribed, Listens: true, GrantValid: 20, GrantMin: 10, LongestSleep: 300, FailurePause: 50, Outage: 100, SharesFailureAt: now - 5,
}

// in returns a wait in a state. It was refused before, and listed, unless it is Behind.
func in(s State, p Policy) *tried {
	w := &tried{Wait: New(p, false), now: now - 2}
	if s == Behind {
		return w
	}
	w.on(Head{}, Slot{Subscribed: true}, Refused{Retry: 2, Listed: true, New: true})
	switch s {
	case HoldingBack:
		w.lore.NotBefore = now
		w.on(Woken{})
		w.lore.NotBefore = 0
	case Due:
		w.on(Woken{})
	case Requesting:
		w.on(Woken{}, Slot{Subscribed: true})
	case Granted:
		w.on(Woken{}, Slot{}, Acquired{})
	case HandedOff:
		w.on(Received{})
	case Over:
		w.on(Ended{})
	default:
	}
	return w
}

type row struct {
	event Event
	in    State
	when  string
	given func(w *tried)
	then  State
	do    string
}

func sleepsLong(w *tried)   { w.at = now + 8 }
func yields(w *tried)       { w.lore.NotBefore = now + 1 }
func noWaitlist(w *tried)   { w.policy.Lists = Never }
func afterReply(w *tried)   { w.lore.At = now + 5 }
func afterFailure(w *tried) { w.on(Woken{}, Slot{Subscribed: true}, Failed{Transient: true}) }

// failsAt makes an earlier request of one under way fail.
func failsAt(at mono.Time) func(w *tried) {
	return func(w *tried) {
		w.now = at
		w.on(Failed{Transient: true}, Woken{}, Slot{})
	}
}

func granted(sent mono.Time) func(w *tried) {
	return func(w *tried) {
		w.requests[0].sent = sent
		w.on(Grant{"request 1"})
	}
}

var table = []row{
	{Head{Failed: true}, Behind, "the head before failed, since SharesFailureAt", nil, Over, "ShareFailure"},
	{Head{}, Behind, "no waitlist, and a head had a reply", func(w *tried) { noWaitlist(w); afterReply(w) }, Asleep, "Listen"},
	{Head{}, Behind, "others go first", yields, HoldingBack, ""},
	{Head{}, Behind, "", nil, Due, ""},

	{Slot{}, Due, "a grant, and GrantMin is left of it", granted(now - 10), Granted, "Forget, FreeSlot"},
	{Slot{Subscribed: true}, Due, "subscribed, and the kind has a waitlist", nil, Requesting, "Send WithID"},
	{Slot{}, Due, "", nil, Requesting, "Send Plain"},

	{Acquired{}, Requesting, "", nil, Granted, "Forget, FreeSlot"},

	{Refused{Listed: true}, Requesting, "listed", nil, Asleep, "Forget, Unlisten, Remember, FreeSlot"},
	{Refused{Listed: true, New: true}, Requesting, "listed anew, for the second time or more", func(w *tried) {
		w.on(Refused{Listed: true, New: true}, Woken{}, Slot{Subscribed: true})
	}, Asleep, "Forget, Unsubscribed, Unlisten, Remember, FreeSlot"},
	{Refused{Listed: true, Beside: true}, Requesting, "unlisted, or Beside", nil, Asleep, "Forget, Listen, Remember, FreeSlot"},
	{Refused{}, Requesting, "to a plain request", func(w *tried) { w.on(Refused{}, Woken{}, Slot{}) }, Asleep, "Listen, Remember, FreeSlot"},

	{Rejected{}, Requesting, "", nil, Over, "Forget, FreeSlot"},

	{Failed{Transient: true}, Requesting, "Transient, after a reply", nil, Asleep, "Unlisten, Remember, FreeSlot, ReportOutage"},
	{Failed{Transient: true}, Requesting, "Transient, after a failure", failsAt(now - 99), Asleep, "Unlisten, Remember, FreeSlot"},
	{Failed{Transient: true, Moving: true}, Requesting, "Moving", neverAnswered, Asleep, "Listen, Remember, FreeSlot"},
	{Failed{Transient: true}, Requesting, "Transient, for Outage", failsAt(now - 100), Over, "Forget, FreeSlot, PassOn, ShareFailure"},
	{Failed{Transient: true}, Requesting, "Transient, and never a reply", neverAnswered, Over, "Forget, FreeSlot, PassOn, ShareFailure"},
	{Failed{}, Requesting, "not Transient", nil, Over, "Forget, FreeSlot, PassOn"},

	{Grant{"request 1"}, HoldingBack, "it counts", yields, Due, ""},
	{Grant{"request 1"}, Due, "it counts", yields, Due, ""},
	{Grant{"request 1"}, Asleep, "it counts", yields, Due, ""},

	{Retry{ID: "request 1"}, Asleep, "it counts, and says now", sleepsLong, Due, ""},
	{Retry{ID: "request 1"}, Asleep, "it counts, and says now; others go first", func(w *tried) { sleepsLong(w); yields(w) }, HoldingBack, ""},
	{Retry{ID: "request 1", After: 7}, Asleep, "it counts, and says before Until", sleepsLong, Asleep, "Remember"},
	{Retry{ID: "request 1", After: 9}, Asleep, "it counts, and says later", sleepsLong, Asleep, ""},

	{Woken{}, Asleep, "others go first", yields, HoldingBack, ""},
	{Woken{}, Asleep, "", nil, Due, ""},

	{Timer{}, Behind, "at ClosesCohortAt", func(w *tried) { w.Wait = New(Policy{ClosesCohortAt: now}, false) }, Behind, "CloseCohort"},
	{Timer{}, HoldingBack, "at Until; others go first again", yields, HoldingBack, ""},
	{Timer{}, HoldingBack, "at Until", nil, Due, ""},
	{Timer{}, Asleep, "at Until; others go first", yields, HoldingBack, ""},
	{Timer{}, Asleep, "at Until", nil, Due, ""},

	{Received{}, Behind, "", nil, HandedOff, ""},
	{Received{}, HoldingBack, "", nil, HandedOff, "Forget, PassOn"},
	{Received{}, Due, "", nil, HandedOff, "Forget, PassOn"},
	{Received{}, Asleep, "", nil, HandedOff, "Forget"},
	{Received{}, Asleep, "after a failure", afterFailure, HandedOff, "Forget, PassOn"},

	{Ended{}, Behind, "", nil, Over, ""},
	{Ended{}, HoldingBack, "", nil, Over, "Forget, PassOn"},
	{Ended{}, Due, "", nil, Over, "Forget, PassOn"},
	{Ended{}, Asleep, "", nil, Over, "Forget"},
	{Ended{}, Asleep, "after a failure", afterFailure, Over, "Forget, PassOn"},
}

// neverAnswered is a first request.
func neverAnswered(w *tried) {
	w.Wait = New(w.policy, false)
	w.on(Head{}, Slot{Subscribed: true})
}

// everyEvent is one of each type.
var everyEvent = []Event{
	Head{}, Slot{}, Acquired{}, Refused{}, Rejected{}, Failed{}, Grant{"request 1"}, Retry{ID: "request 1"}, Woken{}, Timer{}, Received{}, Ended{},
}

var stateNames = [...]string{"Behind", "HoldingBack", "Due", "Requesting", "Asleep", "Granted", "HandedOff", "Over"}

func (s State) String() string { return stateNames[s] }

func (d Do) String() string {
	var all []string
	add := func(on bool, name string) {
		if on {
			all = append(all, name)
		}
	}
	add(len(d.Forget) > 0, "Forget")
	add(d.Unsubscribed, "Unsubscribed")
	add(d.Listen == ListenOn, "Listen")
	add(d.Listen == ListenOff, "Unlisten")
	add(d.Remember, "Remember")
	add(d.FreeSlot, "FreeSlot")
	add(d.PassOn, "PassOn")
	add(d.ShareFailure, "ShareFailure")
	add(d.CloseCohort, "CloseCohort")
	add(d.ReportOutage, "ReportOutage")
	add(d.Send == Plain, "Send Plain")
	add(d.Send == WithID, "Send WithID")
	return strings.Join(all, ", ")
}

func (w *Wait) clone() Wait {
	c := *w
	c.requests = slices.Clone(w.requests)
	return c
}

func eventName(e Event) string { return reflect.TypeOf(e).Name() }

func TestTable(t *testing.T) {
	var page strings.Builder
	last := ""
	for _, r := range table {
		w := in(r.in, tablePolicy)
		if r.given != nil {
			r.given(w)
		}
		if w.State() != r.in {
			t.Fatalf("%v in %v, if %s: it is in %v", r.event, r.in, r.when, w.State())
		}
		do := w.On(now, r.event, w.lore)
		if w.State() != r.then || do.String() != r.do {
			t.Errorf("%T in %v, if %q: %v, and to do: %v", r.event, r.in, r.when, w.State(), do)
		}
		name := eventName(r.event)
		if name != last {
			page.WriteString("//\n")
		}
		shown := name
		if name == last {
			shown = ""
		}
		last = name
		fmt.Fprintf(&page, "//\t%-9s %-12s %-47s %-12s %s\n", shown, r.in, r.when, r.then, cmp.Or(r.do, "–"))
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), page.String()+"//\n") {
		t.Errorf("doc.go does not have this:\n%s", page.String())
	}
}

// An event without a row changes nothing, and nothing is to be done.
func TestAllElseDoesNothing(t *testing.T) {
	for s := Behind; s <= Over; s++ {
		for _, e := range everyEvent {
			if slices.ContainsFunc(table, func(r row) bool { return r.in == s && eventName(r.event) == eventName(e) }) {
				continue
			}
			w := in(s, tablePolicy)
			if w.State() != s {
				t.Fatalf("%v is in %v", s, w.State())
			}
			before := w.clone()
			if do := w.On(now, e, Lore{NotBefore: now + 1, At: now, InTouch: true}); !reflect.DeepEqual(do, Do{}) || !reflect.DeepEqual(w.Wait, before) {
				t.Errorf("%T in %v: %v, and to do: %v", e, s, w.State(), do)
			}
		}
	}
}

// A message that names no request of the wait, or a superseded one, and a timer that is early, change nothing in any state.
func TestWhatDoesNotCount(t *testing.T) {
	for s := range Granted {
		for _, e := range []Event{Grant{"request 9"}, Grant{}, Retry{ID: "request 9"}, Retry{}, Timer{}} {
			p := tablePolicy
			p.ClosesCohortAt = now
			w := in(s, p)
			before := w.clone()
			if do := w.On(now-1, e, Lore{}); !reflect.DeepEqual(do, Do{}) || !reflect.DeepEqual(w.Wait, before) {
				t.Errorf("%#v in %v: %v, and to do: %v", e, s, w.State(), do)
			}
		}
	}
}
