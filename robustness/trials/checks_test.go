//go:build unix

package trials

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// A history without faults passes the checks, and does not when one thing in it is changed.
func TestChecks(t *testing.T) {
	const ms = history.Moment(time.Millisecond)
	op := func(process int, id int64, kind history.Kind, hold int64, from, to history.Moment, outcome history.Outcome, token int64) history.Op {
		return history.Op{
			Process: process, ID: id, Client: 1, Kind: kind, Lock: "x", Hold: hold, Invoke: from * ms, Return: to * ms, Outcome: outcome, Token: token,
		}
	}
	// The first holder is paused, loses the lock to the second, and notes that when it runs again.
	good := func() []history.Op {
		lost := op(1, 4, history.Ended, 1, 1502, 1502, history.Lost, 0)
		lost.Until = 1100 * ms
		return []history.Op{
			op(1, 1, history.Acquire, 0, 10, 20, history.OK, 1),
			op(1, 2, history.Write, 1, 30, 31, history.OK, 1),
			op(1, 3, history.Paused, 0, 40, 1500, history.OK, 0),
			op(2, 1, history.Acquire, 0, 50, 1300, history.OK, 2),
			op(2, 2, history.Write, 1, 1310, 1311, history.OK, 2),
			lost,
			op(1, 5, history.Write, 1, 1503, 1504, history.Refused, 1),
			op(2, 3, history.Release, 1, 1600, 1610, history.OK, 0),
			op(2, 4, history.Ended, 1, 1601, 1601, history.OK, 0),
		}
	}
	check := func(ops []history.Op) (*tally, []string) {
		tr := &trial{class: program.ClassA, lease: time.Second, timeout: time.Second, locks: []runOrders{{Kind: "fenced", Lock: "x"}}}
		return tr.check(ops)
	}
	sum, wrong := check(good())
	if len(wrong) > 0 || sum.overlaps != 0 || sum.inPauses != 1 || sum.histories != 1 || sum.refused != 1 {
		t.Fatalf("%v, %q", sum, wrong)
	}
	killed := good()
	killed[5].Kind, killed[5].Outcome = history.Crash, history.OK
	if sum, wrong := check(killed[:6]); len(wrong) > 0 || sum.inPauses != 1 {
		t.Errorf("killed as soon as it ran again: %v, %q", sum, wrong)
	}
	for what, change := range map[string]func(ops []history.Op){
		"its deadline was not over":                func(ops []history.Op) { ops[5].Until = 1502 * ms },
		"its deadline was that of the other one":   func(ops []history.Op) { ops[5].Until = 1450 * ms },
		"it ran for long past its deadline":        func(ops []history.Op) { ops[2].Invoke, ops[5].Until = 1290*ms, 1190*ms },
		"it was not paused":                        func(ops []history.Op) { ops[2].Return = 45 * ms },
		"it notes the loss too late":               func(ops []history.Op) { ops[5].Invoke += 200 * ms; ops[5].Return += 200 * ms },
		"the other one had the lock before":        func(ops []history.Op) { ops[3].Invoke, ops[3].Return = 22*ms, 35*ms },
		"a stale token was accepted":               func(ops []history.Op) { ops[6].Outcome = history.OK },
		"the token did not grow":                   func(ops []history.Op) { ops[3].Token, ops[4].Token = 1, 1 },
		"a client ignores that it has lost a lock": func(ops []history.Op) { ops[5].Kind = history.Extend },
		"a try is refused though nobody holds it": func(ops []history.Op) {
			ops[0].Outcome, ops[0].Try = history.Refused, true
			ops[5].Kind, ops[1].Kind = "", ""
		},
		"it is killed too late": func(ops []history.Op) {
			ops[5].Kind, ops[5].Outcome = history.Crash, history.OK
			ops[5].Invoke += 200 * ms
			ops[6].Kind = ""
		},
		"a process is paused, and releases too late": func(ops []history.Op) { ops[5].Kind = history.Release; ops[5].Invoke += 200 * ms },
	} {
		ops := good()
		change(ops)
		if sum, wrong := check(ops); len(wrong) == 0 {
			t.Errorf("%s, and nothing was noticed: %v", what, sum)
		}
	}
}

// What a killed process had asked for may happen for a while after its end, and is no excuse later.
func TestChecksOfTheKilled(t *testing.T) {
	const s = history.Moment(time.Second)
	op := func(process int, id int64, kind history.Kind, hold int64, from, to history.Moment, outcome history.Outcome) history.Op {
		if to != history.Never {
			to *= s
		}
		return history.Op{Process: process, ID: id, Client: 1, Kind: kind, Lock: "x", Hold: hold, Invoke: from * s, Return: to, Outcome: outcome, Try: true, Token: id}
	}
	held := func(from history.Moment) []history.Op { // by two, one after the other, though nobody has given it back
		return []history.Op{
			op(1, 1, history.Acquire, 0, from, from+1, history.OK), op(1, 2, history.Release, 1, from+8, from+9, history.OK),
			op(2, 2, history.Acquire, 0, from+2, from+3, history.OK), op(2, 3, history.Release, 2, from+4, from+5, history.OK),
		}
	}
	refused := func(from history.Moment) []history.Op {
		return []history.Op{op(1, 1, history.Acquire, 0, from, from+1, history.Refused)}
	}
	for kind, then := range map[history.Kind]func(from history.Moment) []history.Op{
		history.Acquire: refused, history.Adopt: refused, history.Force: held,
	} {
		for from, excused := range map[history.Moment]bool{1: true, 20: false} {
			end := op(3, 0, history.Crash, 0, 4, 4, history.OK)
			tr := &trial{class: program.ClassA, lease: time.Second, timeout: time.Second, locks: []runOrders{{Kind: "mutex", Lock: "x"}}, crashes: []history.Op{end}}
			ops := append([]history.Op{op(3, 1, kind, 0, 0, history.Never, history.Open)}, then(from)...)
			if _, wrong := tr.check(append(ops, end)); (len(wrong) == 0) != excused {
				t.Errorf("killed during %s, and then %d s later: %q", kind, int64(from), wrong)
			}
		}
	}
}
