package history

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// acquired is an acquisition by one process; its ID is its place in the list.
func acquired(lock string, client int, invoke, ret Moment) Op {
	return Op{Kind: Acquire, Lock: lock, Client: client, Invoke: invoke, Return: ret, Outcome: OK}
}

func about(kind Kind, lock string, hold int64, at Moment) Op {
	return Op{Kind: kind, Lock: lock, Hold: hold, Invoke: at, Return: at, Outcome: OK}
}

func with(op Op, change func(op *Op)) Op {
	change(&op)
	return op
}

func numbered(ops ...Op) []Op {
	for i := range ops {
		ops[i].ID = int64(i + 1)
	}
	return ops
}

func TestOverlaps(t *testing.T) {
	shared := func(op *Op) { op.Shared = true }
	takes := func(n int) func(op *Op) { return func(op *Op) { op.N = n } }
	for name, test := range map[string]struct {
		ops     []Op
		permits int
		want    int
	}{
		"one after another":        {ops: numbered(acquired("a", 1, 1, 2), about(Release, "a", 1, 5), acquired("a", 2, 1, 6))},
		"before the release":       {ops: numbered(acquired("a", 1, 1, 2), about(Release, "a", 1, 5), acquired("a", 2, 1, 4)), want: 1},
		"other locks":              {ops: numbered(acquired("a", 1, 1, 2), acquired("b", 2, 1, 4))},
		"never released":           {ops: numbered(acquired("a", 1, 1, 2), acquired("a", 2, 1, 400)), want: 1},
		"after the context's end":  {ops: numbered(acquired("a", 1, 1, 2), about(Ended, "a", 1, 5), about(Release, "a", 1, 9), acquired("a", 2, 1, 6))},
		"before the context's end": {ops: numbered(acquired("a", 1, 1, 2), about(Ended, "a", 1, 7), about(Release, "a", 1, 9), acquired("a", 2, 1, 6)), want: 1},
		"after a crash":            {ops: numbered(acquired("a", 1, 1, 2), Op{Kind: Crash, Client: 1, Invoke: 5, Return: 5}, acquired("a", 2, 1, 6))},
		"crash of another":         {ops: numbered(acquired("a", 1, 1, 2), Op{Kind: Crash, Client: 3, Invoke: 5, Return: 5}, acquired("a", 2, 1, 6)), want: 1},
		"after a force":            {ops: numbered(acquired("a", 1, 1, 2), Op{Kind: Force, Lock: "a", Invoke: 5, Return: 6}, acquired("a", 2, 1, 7))},
		"force of another lock":    {ops: numbered(acquired("a", 1, 1, 2), Op{Kind: Force, Lock: "b", Invoke: 5, Return: 6}, acquired("a", 2, 1, 7)), want: 1},
		"granted after the force":  {ops: numbered(Op{Kind: Force, Lock: "a", Invoke: 1, Return: 2}, acquired("a", 1, 3, 4), acquired("a", 2, 3, 5)), want: 1},
		"detached":                 {ops: numbered(acquired("a", 1, 1, 2), about(Detach, "a", 1, 5), Op{Kind: Adopt, Lock: "a", From: 1, Invoke: 6, Return: 7, Outcome: OK})},
		"detach refused":           {ops: numbered(acquired("a", 1, 1, 2), with(about(Detach, "a", 1, 5), func(op *Op) { op.Outcome = Refused }), acquired("a", 2, 1, 7)), want: 1},
		"refused":                  {ops: numbered(acquired("a", 1, 1, 2), with(acquired("a", 2, 3, 4), func(op *Op) { op.Outcome = Refused }))},
		"readers":                  {ops: numbered(with(acquired("a", 1, 1, 2), shared), with(acquired("a", 2, 1, 3), shared))},
		"reader and writer":        {ops: numbered(with(acquired("a", 1, 1, 2), shared), acquired("a", 2, 1, 3)), want: 1},
		"writer and reader":        {ops: numbered(acquired("a", 2, 1, 3), with(acquired("a", 1, 1, 4), shared)), want: 1},
		"nested":                   {ops: numbered(acquired("a", 1, 1, 2), with(acquired("a", 1, 3, 4), func(op *Op) { op.Hold = 1 }), with(acquired("a", 1, 3, 5), func(op *Op) { op.Hold = 2 }))},
		"nested, then another":     {ops: numbered(acquired("a", 1, 1, 2), with(acquired("a", 1, 3, 4), func(op *Op) { op.Hold = 1 }), about(Release, "a", 1, 5), acquired("a", 2, 3, 6)), want: 1},
		"permits":                  {ops: numbered(with(acquired("a", 1, 1, 2), takes(2)), acquired("a", 2, 1, 3)), permits: 3},
		"too many permits":         {ops: numbered(with(acquired("a", 1, 1, 2), takes(2)), with(acquired("a", 2, 1, 3), takes(2))), permits: 3, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			found := Overlaps(test.ops, func(string) Rule { return Rule{Permits: test.permits} })
			if len(found) != test.want {
				t.Errorf("found %v, want %d", found, test.want)
			}
		})
	}
}

// The message shows both holds, and what has ended the first.
func TestOverlapMessage(t *testing.T) {
	found := Overlaps(numbered(acquired("orders", 1, 1, 2), about(Release, "orders", 1, 50), acquired("orders", 7, 1, 40)),
		func(string) Rule { return Rule{} })
	if len(found) != 1 {
		t.Fatal(found)
	}
	message := found[0].String()
	for _, want := range []string{`"orders"`, "client 1", "client 7", "from 2ns to 50ns (release)", "from 40ns to the end"} {
		if !strings.Contains(message, want) {
			t.Errorf("no %q in %s", want, message)
		}
	}
}

func TestTokens(t *testing.T) {
	token := func(n int64) func(op *Op) { return func(op *Op) { op.Token = n } }
	for name, test := range map[string]struct {
		ops  []Op
		want int
	}{
		"grow":         {ops: numbered(with(acquired("a", 1, 1, 2), token(5)), with(acquired("a", 2, 3, 4), token(6)))},
		"equal":        {ops: numbered(with(acquired("a", 1, 1, 2), token(5)), with(acquired("a", 2, 3, 4), token(5))), want: 1},
		"fall":         {ops: numbered(with(acquired("a", 1, 1, 2), token(5)), with(acquired("a", 2, 3, 4), token(4))), want: 1},
		"at one time":  {ops: numbered(with(acquired("a", 1, 1, 5), token(5)), with(acquired("a", 2, 3, 4), token(4)))},
		"other locks":  {ops: numbered(with(acquired("a", 1, 1, 2), token(5)), with(acquired("b", 2, 3, 4), token(4)))},
		"nested":       {ops: numbered(with(acquired("a", 1, 1, 2), token(5)), with(acquired("a", 1, 3, 4), func(op *Op) { op.Token, op.Hold = 5, 1 }))},
		"not the last": {ops: numbered(with(acquired("a", 1, 1, 2), token(9)), with(acquired("a", 2, 3, 4), token(10)), with(acquired("a", 2, 5, 6), token(10))), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if found := Tokens(test.ops); len(found) != test.want {
				t.Errorf("found %v, want %d", found, test.want)
			}
		})
	}
}

func TestStaleWrites(t *testing.T) {
	write := func(token int64, invoke, ret Moment, outcome Outcome) Op {
		return Op{Kind: Write, Lock: "a", Token: token, Invoke: invoke, Return: ret, Outcome: outcome}
	}
	for name, test := range map[string]struct {
		ops           []Op
		want, refused int
	}{
		"in order":      {ops: numbered(write(1, 1, 2, OK), write(1, 3, 4, OK), write(2, 5, 6, OK))},
		"stale":         {ops: numbered(write(2, 1, 2, OK), write(1, 3, 4, OK)), want: 1},
		"stale refused": {ops: numbered(write(2, 1, 2, OK), write(1, 3, 4, Refused)), refused: 1},
		"at one time":   {ops: numbered(write(2, 1, 4, OK), write(1, 3, 5, OK))},
	} {
		t.Run(name, func(t *testing.T) {
			found, refused := StaleWrites(test.ops)
			if len(found) != test.want || refused != test.refused {
				t.Errorf("found %v, %d refused, want %d, %d", found, refused, test.want, test.refused)
			}
		})
	}
}

// What two processes write is read back as it was noted; of the one that is killed, up to
// the line that is cut off.
func TestRead(t *testing.T) {
	var written [2]bytes.Buffer
	var want []Op
	clock := NewClock(func() int64 { return 100 })
	for i := range written {
		log := NewLog(clock, i, &written[i])
		op := log.Begin(Op{Kind: Acquire, Lock: "a", Client: 3})
		log.End(op, OK, func(op *Op) { op.Token = 7 })
		log.Mark(Op{Kind: Ended, Hold: op.ID}, Lost)
		log.Begin(Op{Kind: Release, Hold: op.ID})
		ops, err := log.Ops()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ops...)
	}
	written[1].WriteString(`{"id":9,"process":1,"ki`)
	got, err := Read(&written[0], &written[1])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v\nwant %v", got, err, want)
	}
	if last := got[len(got)-1]; last.Return != Never || last.Outcome != Open {
		t.Errorf("what has not returned: %v", last)
	}
	if _, err := Read(strings.NewReader("{nonsense\n")); err == nil {
		t.Error("nonsense was read")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteFails(t *testing.T) {
	log := NewLog(NewClock(func() int64 { return 0 }), 0, broken{})
	log.Mark(Op{Kind: Crash}, OK)
	if _, err := log.Ops(); err == nil {
		t.Error("nobody is told that the history is not written")
	}
}

// slow is a file to which the first line takes as long as f.
type slow struct {
	once sync.Once
	f    func()
}

func (s *slow) Write(line []byte) (int, error) {
	s.once.Do(s.f)
	return len(line), nil
}

// What is noted while another note is being written has the moment at which that was asked for.
func TestMomentIsThatOfTheCall(t *testing.T) {
	var now atomic.Int64
	var log *Log
	asked, second := make(chan struct{}), make(chan *Op, 1)
	log = NewLog(NewClock(func() int64 {
		if now.Load() == 1 {
			defer close(asked)
		}
		return now.Load()
	}), 0, &slow{f: func() {
		now.Store(1)
		go func() { second <- log.Begin(Op{Kind: Ended}) }()
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Error("the moment is not asked for while another note is being written")
		}
		now.Store(1000)
	}})
	log.Begin(Op{Kind: Ended})
	if at := (<-second).Invoke; at >= 1000 {
		t.Errorf("noted for %d, want 1", at)
	}
}

// Moments of one clock differ, though it stands still and many ask.
func TestClock(t *testing.T) {
	log := NewLog(NewClock(func() int64 { return 0 }), 0, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				log.End(log.Begin(Op{Kind: Acquire}), OK, nil)
			}
		})
	}
	all.Wait()
	ops, err := log.Ops()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Moment]bool{}
	for _, op := range ops {
		if seen[op.Invoke] || seen[op.Return] || op.Invoke >= op.Return {
			t.Fatalf("%v", op)
		}
		seen[op.Invoke], seen[op.Return] = true, true
	}
}

func BenchmarkLog(b *testing.B) {
	log := NewLog(NewClock(func() int64 { return 0 }), 0, nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			log.End(log.Begin(Op{Kind: Acquire}), OK, nil)
		}
	})
}
