package drivertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var publish = driver.NewScript("publish", "return redis.call(ARGV[1], ARGV[2], ARGV[3])")

// announce publishes, and again if that is not answered. It reports whether it may have been more than once.
func announce(t testing.TB, d driver.Driver, channel, payload string) (again bool) {
	t.Helper()
	ctx := testContext(t)
	err := announceOnce(ctx, d, channel, payload)
	for unanswered(err) && ctx.Err() == nil {
		again = true
		err = announceOnce(ctx, d, channel, payload)
	}
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// announceOnce publishes as a release of a lock does, from within a script.
func announceOnce(ctx context.Context, d driver.Driver, channel, payload string) error {
	command, err := d.PublishCommand(ctx)
	if err == nil {
		_, err = d.Eval(ctx, driver.Call{Script: publish, Keys: []string{channel}, Args: []string{command, channel, payload}})
	}
	return err
}

// listen opens a driver and a listener on it, closed in a cleanup.
func listen(t testing.TB, target Target) (driver.Driver, driver.Listener, *recorder) {
	t.Helper()
	d := target.Open(t)
	l, r := listenTo(t, d)
	return d, l, r
}

func listenTo(t testing.TB, d driver.Driver) (driver.Listener, *recorder) {
	t.Helper()
	r := newRecorder()
	l := d.Listen(r.sink)
	t.Cleanup(l.Close)
	return l, r
}

func (r *recorder) awaitSubscribed(t testing.TB, channel string, times int) {
	t.Helper()
	r.subscribedWithin(t, limit, channel, times)
}

func (r *recorder) subscribedWithin(t testing.TB, limit time.Duration, channel string, times int) {
	t.Helper()
	within(t, limit, fmt.Sprintf("%s subscribed %d times", channel, times), func() bool {
		return r.subscriptions(channel) >= times
	})
}

func (r *recorder) awaitMessage(t testing.TB, channel, payload string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%.40q on %s", payload, channel), func() bool {
		return r.received(channel, payload)
	})
}

func awaitSubscribers(t testing.TB, target Target, channel string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d subscribers of %s", want, channel), func() bool {
		return target.Subscribers(t, channel) == want
	})
}

func testMessages(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("messages") + ":\x00 odd"
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	most := 0
	for _, payload := range []string{"0", "", "a\x00b\r\n\xff"} {
		most++
		if announce(t, d, channel, payload) {
			most++
		}
		r.awaitMessage(t, channel, payload)
	}
	if got := r.payloads(channel); len(got) > most {
		t.Errorf("got %q, want each message once", got)
	}
}

// testOrder also shows that nothing is lost once the subscription is confirmed.
func testOrder(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("order")
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	const n = 300
	again := map[string]bool{} // said twice, perhaps
	for i := range n {
		payload := fmt.Sprint(i)
		again[payload] = announce(t, d, channel, payload)
	}
	r.awaitMessage(t, channel, fmt.Sprint(n-1))
	next := 0
	for _, payload := range r.payloads(channel) {
		switch last := fmt.Sprint(next - 1); {
		case payload == fmt.Sprint(next):
			next++
		case payload != last || !again[last]:
			t.Fatalf("message %d is %s", next, payload)
		}
	}
}

func testTwice(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("twice")
	l.Unsubscribe(channel)
	l.Subscribe(channel)
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	l.Subscribe(channel)
	again := announce(t, d, channel, "once")
	r.awaitMessage(t, channel, "once")
	if got := len(r.payloads(channel)); got > 1 && !again {
		t.Errorf("the message came %d times", got)
	}
	awaitSubscribers(t, target, channel, 1)
	l.Unsubscribe(channel)
	l.Unsubscribe(channel)
	awaitSubscribers(t, target, channel, 0)
}

func testUnsubscribe(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	gone, kept := unique("gone"), unique("kept")
	l.Subscribe(gone)
	l.Subscribe(kept)
	r.awaitSubscribed(t, gone, 1)
	r.awaitSubscribed(t, kept, 1)
	l.Unsubscribe(gone)
	awaitSubscribers(t, target, gone, 0)
	announce(t, d, gone, "late")
	announce(t, d, kept, "in time")
	r.awaitMessage(t, kept, "in time")
	if got := r.payloads(gone); len(got) != 0 {
		t.Errorf("got %q after Unsubscribe", got)
	}
}

func testSubscribeAgain(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("again")
	for i := 1; i <= 10; i++ {
		l.Subscribe(channel)
		r.awaitSubscribed(t, channel, i)
		announce(t, d, channel, fmt.Sprint(i))
		r.awaitMessage(t, channel, fmt.Sprint(i))
		l.Unsubscribe(channel)
	}
	awaitSubscribers(t, target, channel, 0)
}

func testFlapping(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channel := unique("flapping")
	for range 200 {
		l.Subscribe(channel)
		l.Unsubscribe(channel)
	}
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	awaitDelivery(t, d, r, channel)
	awaitSubscribers(t, target, channel, 1)
	for range 200 {
		l.Unsubscribe(channel)
		l.Subscribe(channel)
	}
	l.Unsubscribe(channel)
	awaitSubscribers(t, target, channel, 0)
}

// awaitDelivery publishes until a message arrives. It is for situations in which
// a subscription may have been confirmed that is just being ended.
func awaitDelivery(t testing.TB, d driver.Driver, r *recorder, channel string) {
	t.Helper()
	payload := unique("delivery")
	eventually(t, "a message on "+channel, func() bool {
		announce(t, d, channel, payload)
		return r.received(channel, payload)
	})
}

func testManyChannels(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channels := make([]string, 500)
	for i := range channels {
		channels[i] = unique("many")
		l.Subscribe(channels[i])
	}
	for _, channel := range channels {
		r.awaitSubscribed(t, channel, 1)
		announce(t, d, channel, "for "+channel)
	}
	for _, channel := range channels {
		r.awaitMessage(t, channel, "for "+channel)
		l.Unsubscribe(channel)
	}
	awaitSubscribers(t, target, channels[0], 0)
	awaitSubscribers(t, target, channels[len(channels)-1], 0)
}

func testTwoListeners(t *testing.T, target Target) {
	d, first, r1 := listen(t, target)
	r2 := newRecorder()
	second := d.Listen(r2.sink)
	defer second.Close()
	channel := unique("two")
	first.Subscribe(channel)
	second.Subscribe(channel)
	r1.awaitSubscribed(t, channel, 1)
	r2.awaitSubscribed(t, channel, 1)
	announce(t, d, channel, "both")
	r1.awaitMessage(t, channel, "both")
	r2.awaitMessage(t, channel, "both")
	first.Close()
	awaitDelivery(t, d, r2, channel)
	second.Close()
	awaitSubscribers(t, target, channel, 0)
}

// testFromSink subscribes and unsubscribes from within the sink, which must not
// deadlock.
func testFromSink(t *testing.T, target Target) {
	d, r := target.Open(t), newRecorder()
	a, b := unique("from-sink"), unique("from-sink")
	ready := make(chan struct{})
	var l driver.Listener
	l = d.Listen(func(event driver.Event) {
		<-ready
		if event.Channel == a && event.Kind == driver.Subscribed {
			l.Subscribe(b)
			l.Unsubscribe(a)
		}
		r.sink(event)
	})
	close(ready)
	defer l.Close()
	l.Subscribe(a)
	r.awaitSubscribed(t, b, 1)
	awaitSubscribers(t, target, a, 0)
}

// testConcurrent has many goroutines subscribe to and unsubscribe from the same
// channels. The last call for each channel decides.
func testConcurrent(t *testing.T, target Target) {
	d, l, r := listen(t, target)
	channels := make([]string, 20)
	for i := range channels {
		channels[i] = unique("concurrent")
	}
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for i := range 200 {
				channel := channels[(i*7+worker)%len(channels)]
				if (i+worker)%2 == 0 {
					l.Subscribe(channel)
				} else {
					l.Unsubscribe(channel)
				}
			}
		})
	}
	workers.Wait()
	for i, channel := range channels {
		if i%2 == 0 {
			l.Subscribe(channel)
		} else {
			l.Unsubscribe(channel)
		}
	}
	for i, channel := range channels {
		awaitSubscribers(t, target, channel, (i+1)%2)
		if i%2 == 0 {
			awaitDelivery(t, d, r, channel)
		}
	}
}
