package wakeup

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// recorder is a listener that writes down what it is asked for.
type recorder struct {
	log  []string
	sink func(driver.Event)
}

func (w *recorder) Subscribe(channel string)   { w.log = append(w.log, "+"+channel) }
func (w *recorder) Unsubscribe(channel string) { w.log = append(w.log, "-"+channel) }
func (w *recorder) Close()                     {}

// Func is a function as a [Party].
type Func func()

func (f Func) Hear(string) { f() }

func newHub() (*Hub, *recorder) {
	w := &recorder{}
	h := New(func(sink func(driver.Event)) driver.Listener { w.sink = sink; return w })
	return h, w
}

func TestChannelsAreCounted(t *testing.T) {
	h, w := newHub()
	a, b := h.Join("x", Func(func() {})), h.Join("x", Func(func() {}))
	a.Leave()
	a.Leave()
	b.Leave()
	if want := []string{"+x", "-x"}; !slices.Equal(w.log, want) {
		t.Errorf("asked for %v, want %v", w.log, want)
	}
}

func TestMessagesAndConfirmationsWake(t *testing.T) {
	h, w := newHub()
	var a, b int
	first := h.Join("x", Func(func() { a++ }))
	w.sink(driver.Event{Kind: driver.Subscribed, Channel: "x"})
	h.Join("x", Func(func() { b++ })) // notified at once: the channel is subscribed
	w.sink(driver.Event{Kind: driver.Message, Channel: "x", Payload: "0"})
	w.sink(driver.Event{Kind: driver.Message, Channel: "y", Payload: "0"})
	w.sink(driver.Event{Kind: driver.Subscribed, Channel: "x"})
	first.Leave()
	w.sink(driver.Event{Kind: driver.Message, Channel: "x", Payload: "0"})
	if a != 3 || b != 4 {
		t.Errorf("notified %d and %d times, want 3 and 4", a, b)
	}
}

// One who has left says nothing any more, though others have the channel again.
func TestLeavingTwiceIsLeavingOnce(t *testing.T) {
	h, w := newHub()
	gone := h.Join("x", Func(func() {}))
	gone.Leave()
	notified := 0
	h.Join("x", Func(func() { notified++ }))
	gone.Leave()
	w.sink(driver.Event{Kind: driver.Message, Channel: "x", Payload: "0"})
	if want := []string{"+x", "-x", "+x"}; !slices.Equal(w.log, want) || notified != 1 {
		t.Errorf("asked for %v, want %v; notified %d times", w.log, want, notified)
	}
}

// Whoever of several leaves, in whichever order, the others are notified.
func TestTheOthersStay(t *testing.T) {
	for order := range 3 {
		h, w := newHub()
		notified := [3]int{}
		var all [3]*Subscription
		for i := range all {
			all[i] = h.Join("x", Func(func() { notified[i]++ }))
		}
		want := [3]int{}
		for i := range all {
			w.sink(driver.Event{Kind: driver.Message, Channel: "x", Payload: "0"})
			for j := i; j < len(all); j++ {
				want[(order+j)%3]++
			}
			all[(order+i)%3].Leave()
		}
		if notified != want || !slices.Equal(w.log, []string{"+x", "-x"}) {
			t.Errorf("order %d: notified %v, want %v; asked for %v", order, notified, want, w.log)
		}
	}
}
