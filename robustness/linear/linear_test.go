package linear

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/robustness/history"
)

// A history is written as a list of operations; the ID of each is its place in the list, from 1.
type ops []history.Op

func (o ops) numbered() []history.Op {
	for i := range o {
		o[i].ID = int64(i + 1)
	}
	return o
}

func call(kind history.Kind, invoke, ret history.Moment, outcome history.Outcome, changes ...func(op *history.Op)) history.Op {
	op := history.Op{Kind: kind, Lock: "x", Invoke: invoke, Return: ret, Outcome: outcome}
	for _, change := range changes {
		change(&op)
	}
	return op
}

func grant(invoke, ret history.Moment, changes ...func(op *history.Op)) history.Op {
	return call(history.Acquire, invoke, ret, history.OK, changes...)
}

func refusal(invoke, ret history.Moment, changes ...func(op *history.Op)) history.Op {
	return call(history.Acquire, invoke, ret, history.Refused, append(changes, func(op *history.Op) { op.Try = true })...)
}

func release(id int64, invoke, ret history.Moment) history.Op {
	return call(history.Release, invoke, ret, history.OK, of(id))
}

func of(id int64) func(op *history.Op)             { return func(op *history.Op) { op.Hold = id } }
func from(id int64) func(op *history.Op)           { return func(op *history.Op) { op.From = id } }
func n(n int) func(op *history.Op)                 { return func(op *history.Op) { op.N = n } }
func token(n int64) func(op *history.Op)           { return func(op *history.Op) { op.Token = n } }
func until(at history.Moment) func(op *history.Op) { return func(op *history.Op) { op.Until = at } }
func client(i int) func(op *history.Op)            { return func(op *history.Op) { op.Client = i } }
func shared(op *history.Op)                        { op.Shared = true }
func lost(id int64, at history.Moment) history.Op {
	return call(history.Ended, at, at, history.Lost, of(id))
}

func cancelled(id int64, at history.Moment) history.Op {
	return call(history.Ended, at, at, history.OK, of(id))
}

// Each model accepts what such a lock can do, and refuses what it cannot.
func TestModels(t *testing.T) {
	for name, test := range map[string]struct {
		model   Model
		ops     ops
		illegal bool
	}{
		"mutex: one after another":              {model: Mutex, ops: ops{grant(1, 2), release(1, 3, 4), grant(5, 6)}},
		"mutex: granted while it is released":   {model: Mutex, ops: ops{grant(1, 2), release(1, 3, 9), grant(1, 4)}},
		"mutex: granted twice":                  {model: Mutex, ops: ops{grant(1, 2), grant(3, 4)}, illegal: true},
		"mutex: granted before the release":     {model: Mutex, ops: ops{grant(1, 2), grant(1, 4), release(1, 5, 6)}, illegal: true},
		"mutex: released twice":                 {model: Mutex, ops: ops{grant(1, 2), release(1, 3, 4), release(1, 5, 6)}, illegal: true},
		"mutex: nested":                         {model: Mutex, ops: ops{grant(1, 2), grant(3, 4, of(1))}, illegal: true},
		"mutex: refused while held":             {model: Mutex, ops: ops{grant(1, 2), refusal(3, 4), release(1, 5, 6)}},
		"mutex: refused while free":             {model: Mutex, ops: ops{grant(1, 2), release(1, 3, 4), refusal(5, 6)}, illegal: true},
		"mutex: refused, and nobody ever held":  {model: Mutex, ops: ops{refusal(5, 6)}, illegal: true},
		"mutex: refused after an unknown":       {model: Mutex, ops: ops{call(history.Acquire, 1, 2, history.Unknown), refusal(5, 6)}},
		"mutex: ... which is over":              {model: Mutex, ops: ops{call(history.Acquire, 1, 2, history.Unknown, until(4)), refusal(5, 6)}, illegal: true},
		"mutex: refused after unanswered":       {model: Mutex, ops: ops{call(history.Unanswered, 1, 1, history.Unknown, until(8)), refusal(5, 6)}},
		"mutex: refused, as a place stands":     {model: Mutex, ops: ops{grant(1, 2, until(6)), release(1, 3, 4), refusal(5, 6)}},
		"mutex: ... which is given back":        {model: Mutex, ops: ops{grant(1, 2, until(6)), release(1, 3, 4), refusal(7, 8)}, illegal: true},
		"mutex: refused before an unknown":      {model: Mutex, ops: ops{refusal(1, 2), call(history.Acquire, 5, 6, history.Unknown)}, illegal: true},
		"mutex: granted beside an open acquire": {model: Mutex, ops: ops{call(history.Acquire, 1, history.Never, history.Open), grant(3, 4)}},
		"mutex: granted after a loss":           {model: Mutex, ops: ops{grant(1, 2), lost(1, 5), grant(3, 6)}},
		"mutex: granted before the loss":        {model: Mutex, ops: ops{grant(1, 2), lost(1, 5), grant(3, 4)}, illegal: true},
		"mutex: lost, and told late":            {model: Mutex, ops: ops{grant(1, 2), cancelled(1, 3), grant(3, 6), call(history.Release, 8, 9, history.Lost, of(1), until(5))}},
		"mutex: lost later than granted":        {model: Mutex, ops: ops{grant(1, 2), cancelled(1, 3), grant(3, 6), call(history.Release, 8, 9, history.Lost, of(1), until(7))}, illegal: true},
		"mutex: cancelled is not lost":          {model: Mutex, ops: ops{grant(1, 2), cancelled(1, 5), grant(3, 6)}, illegal: true},
		"mutex: a loss takes its time":          {model: Mutex, ops: ops{grant(1, 2), lost(1, 5), refusal(6, 7), grant(8, 9)}},
		"mutex: refused after the next one, whose loss is later": {model: Mutex, ops: ops{
			grant(1, 2), lost(1, 5), grant(3, 6), release(3, 7, 8), refusal(9, 10),
		}, illegal: true},
		"mutex: two grants after one loss": {model: Mutex, ops: ops{grant(1, 2), lost(1, 5), grant(6, 7), grant(8, 9)}, illegal: true},
		"mutex: an effect before the loss that made it possible": {model: Mutex, ops: ops{
			grant(1, 2), lost(1, 50), grant(3, 60), release(3, 61, 62), refusal(3, 40), grant(3, 40),
		}, illegal: true},
		"mutex: after a crash":               {model: Mutex, ops: ops{grant(1, 2, client(1)), {Kind: history.Crash, Client: 1, Invoke: 4, Return: 4}, grant(3, 5)}},
		"mutex: after the end of its client": {model: Mutex, ops: ops{grant(1, 2, client(1)), {Kind: history.Close, Client: 1, Invoke: 4, Return: 9}, grant(3, 5)}},
		"mutex: after another's crash":       {model: Mutex, ops: ops{grant(1, 2, client(1)), {Kind: history.Crash, Client: 2, Invoke: 4, Return: 4}, grant(3, 5)}, illegal: true},
		"mutex: release unanswered":          {model: Mutex, ops: ops{grant(1, 2), call(history.Release, 3, 4, history.Unknown, of(1)), grant(5, 6)}},
		"mutex: ... and not arrived":         {model: Mutex, ops: ops{grant(1, 2), call(history.Release, 3, 4, history.Unknown, of(1)), refusal(5, 6)}},
		"mutex: forced":                      {model: Mutex, ops: ops{grant(1, 2), call(history.Force, 3, 4, history.OK), grant(5, 6), release(1, 7, 8)}},
		"mutex: adopted":                     {model: Mutex, ops: ops{grant(1, 2), call(history.Detach, 3, 4, history.OK, of(1), until(90)), call(history.Adopt, 5, 6, history.OK, from(1)), release(3, 7, 8), grant(9, 10)}},
		"mutex: taken between":               {model: Mutex, ops: ops{grant(1, 2), call(history.Detach, 3, 4, history.OK, of(1), until(90)), grant(5, 6)}, illegal: true},
		"mutex: adopted though taken":        {model: Mutex, ops: ops{grant(1, 2), call(history.Detach, 3, 4, history.OK, of(1), until(5)), grant(6, 7), call(history.Adopt, 8, 9, history.OK, from(1))}, illegal: true},
		"mutex: never adopted":               {model: Mutex, ops: ops{grant(1, 2), call(history.Detach, 3, 4, history.OK, of(1), until(90)), grant(5, 91)}},
		"mutex: who waited may be refused":   {model: Mutex, ops: ops{call(history.Acquire, 5, 6, history.Refused)}},
		"reentrant: nested":                  {model: Reentrant, ops: ops{grant(1, 2), grant(3, 4, of(1)), release(1, 5, 6), release(2, 7, 8), grant(9, 10)}},
		"reentrant: nested in a nested one":  {model: Reentrant, ops: ops{grant(1, 2), grant(3, 4, of(1)), grant(3, 5, of(2))}},
		"reentrant: still held":              {model: Reentrant, ops: ops{grant(1, 2), grant(3, 4, of(1)), release(1, 5, 6), grant(7, 8)}, illegal: true},
		"reentrant: nested in what is gone":  {model: Reentrant, ops: ops{grant(1, 2), release(1, 3, 4), grant(5, 6, of(1))}, illegal: true},
		"read-write: readers":                {model: ReadWrite, ops: ops{grant(1, 2, shared), grant(3, 4, shared)}},
		"read-write: writer beside readers":  {model: ReadWrite, ops: ops{grant(1, 2, shared), grant(3, 4)}, illegal: true},
		"read-write: reader beside writer":   {model: ReadWrite, ops: ops{grant(1, 2), grant(3, 4, shared)}, illegal: true},
		"read-write: writer reads":           {model: ReadWrite, ops: ops{grant(1, 2), grant(3, 4, shared, of(1)), release(1, 5, 6), grant(7, 8, shared)}},
		"read-write: read refused by reader": {model: ReadWrite, ops: ops{grant(1, 2, shared), refusal(3, 4, shared)}, illegal: true},
		"read-write: ... as one waits":       {model: ReadWrite, ops: ops{grant(1, 2, shared), call(history.Acquire, 2, 9, history.Refused), refusal(3, 4, shared)}},
		"read-write: one of two released":    {model: ReadWrite, ops: ops{grant(1, 2, shared), grant(3, 4, shared), release(1, 5, 6), grant(7, 8)}, illegal: true},
		"fenced: tokens grow":                {model: Fenced, ops: ops{grant(1, 2, token(5)), release(1, 3, 4), grant(5, 6, token(6))}},
		"fenced: a token twice":              {model: Fenced, ops: ops{grant(1, 2, token(5)), release(1, 3, 4), grant(5, 6, token(5))}, illegal: true},
		"fenced: nested has the same":        {model: Fenced, ops: ops{grant(1, 2, token(5)), grant(3, 4, token(5), of(1))}},
		"fenced: nested has another":         {model: Fenced, ops: ops{grant(1, 2, token(5)), grant(3, 4, token(6), of(1))}, illegal: true},
		"fenced: falls after a loss":         {model: Fenced, ops: ops{grant(1, 2, token(5)), lost(1, 3), grant(5, 6, token(4))}, illegal: true},
		"fenced: adopted with a new token":   {model: Fenced, ops: ops{grant(1, 2, token(5)), call(history.Detach, 3, 4, history.OK, of(1), until(90)), call(history.Adopt, 5, 6, history.OK, from(1), token(5))}, illegal: true},
		"semaphore: as many as there are":    {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), grant(3, 4)}},
		"semaphore: too many":                {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), grant(3, 4, n(2))}, illegal: true},
		"semaphore: after a loss":            {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), grant(1, 2), lost(1, 3), grant(4, 5, n(2))}},
		"semaphore: after another's loss":    {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), grant(1, 2), lost(2, 3), grant(4, 5, n(2))}, illegal: true},
		"semaphore: refused for lack":        {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), refusal(3, 4, n(2))}},
		"semaphore: refused without need":    {model: Semaphore(3), ops: ops{grant(1, 2, n(2)), refusal(3, 4)}, illegal: true},
		"latch": {model: Latch, ops: ops{
			call(history.SetCount, 1, 2, history.OK, n(2)), call(history.SetCount, 3, 4, history.Refused, n(5)),
			call(history.CountDown, 5, 6, history.OK), call(history.Count, 7, 8, history.OK, n(1)), call(history.CountDown, 9, 12, history.OK), call(history.Await, 3, 11, history.OK),
		}},
		"latch: opens early":           {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.OK, n(2)), call(history.CountDown, 5, 6, history.OK), call(history.Await, 3, 11, history.OK)}, illegal: true},
		"latch: set twice":             {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.OK, n(2)), call(history.SetCount, 3, 4, history.OK, n(2))}, illegal: true},
		"latch: not set, and refused":  {model: Latch, ops: ops{call(history.SetCount, 3, 4, history.Refused, n(2))}, illegal: true},
		"latch: an unknown count down": {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.OK, n(1)), call(history.CountDown, 3, 4, history.Unknown), call(history.Count, 5, 6, history.OK, n(1)), call(history.Await, 7, 8, history.OK)}},
		"latch: one count down, twice": {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.OK, n(2)), call(history.CountDown, 3, 4, history.Unknown), call(history.Await, 7, 8, history.OK)}, illegal: true},
		"latch: an unknown set":        {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.Unknown, n(2)), call(history.Count, 3, 4, history.OK), call(history.Count, 5, 6, history.OK, n(2))}},
		"latch: ... that comes late":   {model: Latch, ops: ops{call(history.SetCount, 1, 2, history.Unknown, n(2)), call(history.SetCount, 3, 4, history.OK, n(3)), call(history.Count, 5, 6, history.OK, n(3))}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Check(test.ops.numbered(), func(string) Model { return test.model }, 10*time.Second)
			if err != nil || r.Undecided > 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			if (len(r.Illegal) > 0) != test.illegal {
				t.Errorf("%+v, want illegal: %v", r, test.illegal)
			}
			for _, i := range r.Illegal {
				if !strings.Contains(i.String(), `"x"`) || len(i.Ops) == 0 {
					t.Errorf("message %q", i.String())
				}
			}
		})
	}
}

// Locks are checked by themselves, and long histories in parts; a fault in the last part is found.
func TestCut(t *testing.T) {
	var all []history.Op
	for i := range 2000 {
		at := history.Moment(10 * i)
		all = append(all, grant(at+1, at+2), release(int64(2*i+1), at+3, at+4))
	}
	for i := range all {
		all[i].ID = int64(i + 1)
	}
	model := func(string) Model { return Mutex }
	r, err := Check(all, model, time.Second)
	if err != nil || r.Parts != 2000 || len(r.Illegal)+r.Undecided > 0 {
		t.Fatalf("%d parts, %d illegal, %d undecided, %v", r.Parts, len(r.Illegal), r.Undecided, err)
	}
	late := refusal(30000, 30001)
	late.ID = int64(len(all) + 1)
	if r, err = Check(append(all, late), model, time.Second); err != nil || len(r.Illegal) != 1 {
		t.Fatalf("%d illegal, %v", len(r.Illegal), err)
	}
}

// What many do at one time is decided, or given up in time.
func TestBounded(t *testing.T) {
	var all []history.Op
	for i := range 60 { // all at one time, each for itself, and the last one is impossible
		id := int64(len(all) + 1)
		all = append(all, grant(1, 10_000), release(id, 10_001+history.Moment(i), 20_000))
	}
	all = append(all, refusal(30_000, 30_001))
	for i := range all {
		all[i].ID = int64(i + 1)
	}
	start := time.Now()
	r, err := Check(all, func(string) Model { return Mutex }, 200*time.Millisecond)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if err != nil || r.Undecided+len(r.Illegal) == 0 {
		t.Errorf("%d parts, %v", r.Parts, err)
	}
}
