package waitqueue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// holding is a holder with a refusal of its own.
type holding struct{ err error }

func (h *holding) Refusal() error { return h.err }

var x = Key{Name: "x", Channel: "x"}

// arrive joins the queue of x with each of these takers, in this order.
func arrive(queues *queues, takers ...int) (waiters []*waiter) {
	for _, taker := range takers {
		waiters = append(waiters, enter(queues, x, taker))
	}
	return waiters
}

// takes is what a lock is handed to, and notes to whom it was.
type takes struct{ got []int }

func (s *takes) give(taker *int) bool {
	s.got = append(s.got, *taker)
	return true
}

func refuse(*int) bool { return false }

// done reports whether a channel is closed; one that is nil is not.
func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func wantNoQueue(t *testing.T, queues *queues) {
	t.Helper()
	if left(queues) != 0 || !queues.Idle() || queues.joinables.Load() != 0 {
		t.Errorf("%d queues left, %d waiters, %d open", left(queues), queues.waiters.Load(), queues.joinables.Load())
	}
}

// The lock goes to the first, and then to the next, and nobody asks until the holder says that it
// is over.
func TestHandOverInOrder(t *testing.T) {
	queues, _ := newLines()
	holder, other := &holding{errors.New("held here")}, &holding{errors.New("not held here")}
	w := arrive(queues, 1, 2, 3)
	second := w[1].Received() // the first asks when it has it
	var to takes
	queue := queues.HandOver(x, holder, to.give)
	if queue == nil || !slices.Equal(to.got, []int{1}) || !w[0].HasReceived() || !done(w[0].Received()) {
		t.Fatalf("handed over to %v", to.got)
	}
	if w[1].HasReceived() || done(second) || isHead(w[1]) {
		t.Error("the second has it, too, or asks")
	}
	if refusal := w[1].Lore().Refusal; refusal != holder.err { //nolint:errorlint // the same one
		t.Errorf("refused because of %v", refusal)
	}
	if queues.HandOver(x, other, to.give) != nil {
		t.Error("one who does not hold it has handed it over")
	}
	if queues.HandOver(x, holder, to.give) != queue || !slices.Equal(to.got, []int{1, 2}) || !done(second) {
		t.Errorf("handed over to %v", to.got)
	}
	gone, late := arrive(queues, 4)[0], arrive(queues, 5)[0]
	gone.Leave()
	queue.Resume(other, 0)
	if isHead(w[2]) {
		t.Error("one who does not hold it, or has left, has ended the cohort")
	}
	queue.Resume(holder, 0)
	if !isHead(w[2]) || isHead(late) {
		t.Error("after the cohort the first asks, and nobody else")
	}
	if !w[0].Leave() || !w[1].Leave() || w[2].Leave() || late.Leave() {
		t.Error("two were handed it, and two were not")
	}
	wantNoQueue(t, queues)
}

// One to whom nothing can be handed over waits for no such thing.
func TestNothingToHand(t *testing.T) {
	queues, _ := newLines()
	if arrive(queues, 0)[0].Received() != nil {
		t.Error("it waits to be handed the lock")
	}
}

// Nobody is handed a lock who does not want it, whose try is under way, or who is not there.
func TestNobodyTakes(t *testing.T) {
	holder := &holding{}
	for name, test := range map[string]func(queues *queues, to *takes) *queue{
		"nobody waits": func(queues *queues, to *takes) *queue { return queues.HandOver(x, holder, to.give) },
		"others wait": func(queues *queues, to *takes) *queue {
			arrive(queues, 1)
			return queues.HandOver(Key{Name: "y"}, holder, to.give)
		},
		"the first takes nothing": func(queues *queues, to *takes) *queue {
			arrive(queues, 0, 2)
			return queues.HandOver(x, holder, to.give)
		},
		"it refuses": func(queues *queues, _ *takes) *queue {
			arrive(queues, 1, 2)
			return queues.HandOver(x, holder, refuse)
		},
		"its try is under way": func(queues *queues, to *takes) *queue {
			tryFirst(arrive(queues, 1)[0])
			return queues.HandOver(x, holder, to.give)
		},
		"it has left": func(queues *queues, to *takes) *queue {
			arrive(queues, 1)[0].Leave()
			return queues.HandOver(x, holder, to.give)
		},
	} {
		queues, _ := newLines()
		var to takes
		if queue := test(queues, &to); queue != nil || len(to.got) > 0 {
			t.Errorf("%s: handed over to %v", name, to.got)
		}
	}
}

// One who leaves keeps the lock if anybody stands behind it, and else nothing is kept.
func TestLeaveHolding(t *testing.T) {
	queues, heard := newLines()
	holder := &holding{}
	w := arrive(queues, 1, 2)
	w[0].Listen(true)
	w[0].RetryAt(mono.Now().Add(time.Second), errors.New("held"))
	queue := w[0].LeaveAfter(0, true, holder)
	if queue == nil || isHead(w[1]) || !w[0].gone() || w[0].HasReceived() || heard.ended > 0 {
		t.Fatal("who stands behind it must wait for the holder")
	}
	w[1].Leave()
	if heard.ended > 0 {
		t.Error("the queue is kept for the holder")
	}
	newcomer := arrive(queues, 3)[0]
	if isHead(newcomer) {
		t.Error("a newcomer asks while a holder here has the lock")
	}
	newcomer.Leave()
	queue.Resume(holder, 0)
	if heard.ended != 1 {
		t.Error("it listens on, for nobody")
	}
	wantNoQueue(t, queues)

	alone := arrive(queues, 1)[0]
	alone.Listen(true)
	if alone.LeaveAfter(0, true, holder) != nil || heard.ended != 2 {
		t.Error("a queue is kept, and nobody waits")
	}
	wantNoQueue(t, queues)
}

// Those behind a holder let others try first, for as long as it says, and not in the next cohort.
func TestResumeAfterAWhile(t *testing.T) {
	queues, _ := newLines()
	holder := &holding{}
	w := arrive(queues, 1, 2)
	queue := w[0].LeaveAfter(0, true, holder)
	if !w[1].Lore().NotBefore.IsZero() {
		t.Error("held back by nobody")
	}
	before := mono.Now()
	queue.Resume(holder, time.Minute)
	at := w[1].Lore().NotBefore
	if !isHead(w[1]) || at < before.Add(time.Minute) || at > mono.Now().Add(time.Minute) {
		t.Errorf("held back for %v", at.Sub(before))
	}
	if at := w[0].Lore().NotBefore; !at.IsZero() {
		t.Error("who has left is held back")
	}
	third := arrive(queues, 3)[0]
	queue = w[1].LeaveAfter(0, true, holder)
	queue.Resume(holder, 0)
	if at := third.Lore().NotBefore; !at.IsZero() {
		t.Errorf("still held back for %v", mono.Until(at))
	}
	arrive(queues, 4)
	queue = third.LeaveAfter(0, true, holder)
	queue.Resume(holder, time.Minute)
	queue.waiters.First().Value.Leave()
	if at := arrive(queues, 5)[0].Lore().NotBefore; !at.IsZero() {
		t.Error("the next queue is held back by what the last one has learnt")
	}
}

// All who are accepted are let in, and the first of the others asks.
func TestLetIn(t *testing.T) {
	queues, _ := newLines()
	if !queues.LetIn(x, refuse) {
		t.Error("somebody was left out of nobody")
	}
	w := arrive(queues, 1, 2, 0, 4)
	if !queues.LetIn(Key{Name: "y"}, refuse) {
		t.Error("one who waits for another lock was left out")
	}
	var to takes
	even := func(taker *int) bool { return *taker%2 == 0 && to.give(taker) }
	if queues.LetIn(x, even) || !slices.Equal(to.got, []int{2, 4}) || !w[1].HasReceived() || !w[3].HasReceived() || w[0].HasReceived() || w[2].HasReceived() {
		t.Errorf("let in: %v", to.got)
	}
	w[0].Leave()
	if !isHead(w[2]) {
		t.Error("the first who was left out does not ask")
	}
	w[2].Leave()
	wantNoQueue(t, queues)

	w = arrive(queues, 2, 1)
	if queues.LetIn(x, even) || !isHead(w[1]) {
		t.Error("one that was behind those who were let in does not ask")
	}
	w[1].Leave()
	wantNoQueue(t, queues)

	arrive(queues, 1, 2)
	if !queues.LetIn(x, to.give) {
		t.Error("nobody was left out")
	}
	wantNoQueue(t, queues)
}

// One whose try is under way is left out, those behind it are not.
func TestLetInDuringTry(t *testing.T) {
	queues, _ := newLines()
	w := arrive(queues, 1, 2)
	tryFirst(w[0])
	var to takes
	if queues.LetIn(x, to.give) || !slices.Equal(to.got, []int{2}) {
		t.Errorf("let in: %v", to.got)
	}
	w[0].Done()
	if !queues.LetIn(x, to.give) || !w[0].HasReceived() {
		t.Error("after the try it is left out")
	}
}

// While something is open newcomers find it, and nobody asks, until it is closed.
func TestOpen(t *testing.T) {
	queues, _ := newLines()
	first, second := "one", "other"
	one, other := &first, &second
	if queues.Joinable(x) != nil {
		t.Error("something is open")
	}
	queues.SetJoinable(x, one)
	if queues.Joinable(x) != one || queues.Joinable(Key{Name: "y"}) != nil {
		t.Error("not what was opened")
	}
	w := arrive(queues, 1, 2, 3)
	w[2].Leave()
	if isHead(w[0]) {
		t.Error("one asks, though something is open")
	}
	queues.EndJoinable(x, other, 0)
	if queues.Joinable(x) != one || isHead(w[0]) {
		t.Error("what was not open has been closed")
	}
	queues.SetJoinable(x, other) // in place of the one
	queues.EndJoinable(x, one, 0)
	if queues.Joinable(x) != other {
		t.Error("what is open was closed by the one before")
	}
	queues.EndJoinable(x, other, time.Minute)
	if queues.Joinable(x) != nil || !isHead(w[0]) || isHead(w[1]) || mono.Until(w[0].Lore().NotBefore) < time.Minute/2 {
		t.Error("the first is to ask after a minute")
	}
	queues.EndJoinable(x, other, 0)
	if w[0].Lore().NotBefore.IsZero() {
		t.Error("closed twice")
	}
	w[0].Leave()
	w[1].Leave()
	wantNoQueue(t, queues)

	queues.SetJoinable(x, one)
	w = arrive(queues, 1)
	w[0].Leave()
	if queues.Joinable(x) != one {
		t.Error("what is open went with the last who waited")
	}
	queues.EndJoinable(x, one, 0)
	wantNoQueue(t, queues)
}

// One who must not wait for what is open has the first ask.
func TestAskAll(t *testing.T) {
	queues, _ := newLines()
	one, two := "one", "two"
	queues.SetJoinable(x, &one)
	w := arrive(queues, 1, 2)
	w[1].AskAll()
	if queues.Joinable(x) != nil || !isHead(w[0]) || isHead(w[1]) {
		t.Error("the first does not ask")
	}
	w[1].AskAll() // nothing is open any more
	w[0].Leave()
	w[1].Leave()
	queues.SetJoinable(x, &two)
	w[1].AskAll()
	if queues.Joinable(x) != &two {
		t.Error("one who has left has closed what is open")
	}
	queues.EndJoinable(x, &two, 0)
	wantNoQueue(t, queues)
}

// Who listens here is not somebody else.
func TestHeard(t *testing.T) {
	for _, test := range []struct {
		listens bool
		n       int64
		others  bool
	}{
		{false, 0, false}, {false, 1, true}, {false, 2, true}, {true, 0, false}, {true, 1, false}, {true, 2, true},
	} {
		queues, _ := newLines()
		holder := &holding{}
		w := arrive(queues, 1, 2)
		if test.listens {
			w[0].Listen(true)
		}
		queue := w[0].LeaveAfter(0, true, holder)
		if others := queue.Heard(holder, test.n, false); others != test.others || queue.Unheard() == others {
			t.Errorf("%+v: others %v, unheard %v", test, others, queue.Unheard())
		}
	}
}

// That nobody else has heard is known until somebody else has the lock, and told by nobody but the
// holder.
func TestAlone(t *testing.T) {
	queues, _ := newLines()
	holder := &holding{}
	w := arrive(queues, 1, 2)
	queue := w[0].LeaveAfter(0, true, holder)
	if queue.Unheard() {
		t.Error("alone, and nobody has said so")
	}
	queue.Heard(&holding{}, 0, false)
	if queue.Unheard() {
		t.Error("alone, says one who does not hold it")
	}
	queue.Heard(holder, 0, false)
	queue.Resume(holder, 0)
	w[1].RetryAt(mono.Now(), nil)
	if !queue.Unheard() {
		t.Error("it was forgotten")
	}
	w[1].RetryAt(mono.Now(), errors.New("held by another"))
	if queue.Unheard() {
		t.Error("alone, and another has it")
	}
	w[1].Leave()

	w = arrive(queues, 1, 2)
	queue = w[0].LeaveAfter(0, true, holder)
	queue.Heard(holder, 0, false)
	w[1].Leave()
	queue.Resume(holder, 0)
	if arrive(queues, 3)[0].queue.Unheard() {
		t.Error("the next queue knows what the last one has learnt")
	}
}

// One that was let in may take the try slot of the queue that it has left, before it looks. The queue
// of those who have come since is not touched by that.
func TestTrySlotOfOneThatHasGone(t *testing.T) {
	queues, _ := newLines()
	w := arrive(queues, 1)[0]
	v := enter(queues, Key{Name: "y"}, 2)
	queues.LetIn(x, func(*int) bool { return true })
	queues.LetIn(Key{Name: "y"}, func(*int) bool { return true }) // whose queue is the next one
	w.TrySlot() <- struct{}{}
	next := arrive(queues, 3)[0]
	if next.queue != v.queue {
		t.Fatal("the queue that was left last is used again")
	}
	w.Done()
	if second := arrive(queues, 4)[0]; isHead(second) {
		t.Error("two are heads of one lock's queue")
	}
}

// There are waiters as long as one waits, or the try of one who has left is under way.
func TestHasWaiters(t *testing.T) {
	queues, _ := newLines()
	if queues.HasWaiters(x) {
		t.Error("nobody has come")
	}
	w := arrive(queues, 1)[0]
	if !queues.HasWaiters(x) || queues.HasWaiters(Key{Name: "y"}) || queues.Idle() {
		t.Error("one waits, for x")
	}
	if !tryFirst(w) || tryFirst(w) {
		t.Error("two tries at once")
	}
	w.Leave()
	if !queues.HasWaiters(x) {
		t.Error("a try is under way")
	}
	w.Done()
	if queues.HasWaiters(x) {
		t.Error("all have gone")
	}
	wantNoQueue(t, queues)
}

// Who has gone knows nothing of a queue that may be another lock's by now.
func TestGoneKnowsNothing(t *testing.T) {
	queues, _ := newLines()
	holder := &holding{errors.New("held here")}
	w := arrive(queues, 1, 2)
	w[0].RetryAt(mono.Now(), errors.New("held"))
	w[0].LeaveAfter(0, true, holder)
	if lore := w[0].Lore(); lore != (Lore{}) {
		t.Errorf("who has left knows %+v", lore)
	}
	if refusal := w[1].Lore().Refusal; refusal != holder.err { //nolint:errorlint // the same one
		t.Errorf("who waits is refused because of %v", refusal)
	}
}
