package drivertest

import (
	"testing"
	"time"
)

func testClose(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("close")
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	closePromptly(t, l.Close)
	before := r.events()
	awaitSubscribers(t, target, channel, 0)
	l.Subscribe(channel)
	l.Unsubscribe(channel)
	l.Close()
	other := newRecorder()
	witness := d.Listen(other.sink)
	defer witness.Close()
	witness.Subscribe(channel)
	other.awaitSubscribed(t, channel, 1)
	announce(t, d, channel, "after Close")
	other.awaitMessage(t, channel, "after Close")
	if after := r.events(); after != before {
		t.Errorf("%d events after Close", after-before)
	}
}

func testCloseUnused(t *testing.T, target Target) {
	l := target.Open(t).Listen(newRecorder().sink)
	closePromptly(t, l.Close)
}

// testCloseWhileBusy closes in the middle of subscribing.
func testCloseWhileBusy(t *testing.T, target Target) {
	_, l, r := listen(t, target)
	channels := make([]string, 50)
	for i := range channels {
		channels[i] = unique("busy")
		l.Subscribe(channels[i])
	}
	closePromptly(t, l.Close)
	before := r.events()
	for _, channel := range channels {
		awaitSubscribers(t, target, channel, 0)
	}
	if after := r.events(); after != before {
		t.Errorf("%d events after Close", after-before)
	}
}

func closePromptly(t testing.TB, closeIt func()) {
	t.Helper()
	start := time.Now()
	closeIt()
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v", took)
	}
}

// testKilled checks that a lost connection is followed by a confirmation of
// every wanted subscription, and that the new connection works.
func testKilled(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channels := make([]string, 20)
	for i := range channels {
		channels[i] = unique("killed")
		l.Subscribe(channels[i])
	}
	for round := 1; round <= 3; round++ {
		before := make([]int, len(channels))
		for i, channel := range channels {
			r.awaitSubscribed(t, channel, 1)
			before[i] = r.subscriptions(channel)
		}
		target.KillSubscribers(t)
		for i, channel := range channels {
			r.awaitSubscribed(t, channel, before[i]+1)
		}
		for _, channel := range channels {
			// The connection may be to a node whose subscribers were killed last, and
			// end only now. It may carry commands, too.
			deliverWithin(t, limit, d, r, channel)
			awaitSubscribers(t, target, channel, 1)
		}
	}
	for _, channel := range channels {
		l.Unsubscribe(channel)
	}
	for _, channel := range channels {
		awaitSubscribers(t, target, channel, 0)
	}
}
