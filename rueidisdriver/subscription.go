package rueidisdriver

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	firstPause         = 50 * time.Millisecond // after a failed attempt to subscribe
	lastPause          = time.Second           // after many
	unsubscribeTimeout = time.Second           // for the answer to UNSUBSCRIBE
)

// maintain is the goroutine of a subscription. Each round is one Receive.
func (l *listener) maintain(channel string, s *subscription) {
	for failures := 0; ; {
		ctx, ok := l.beginRound(channel, s)
		if !ok {
			return
		}
		l.receive(ctx, channel, s)
		if l.confirmed(s) {
			failures = 0 // and subscribe again at once
		} else {
			pause(ctx, failures)
			failures++
		}
		s.stop()
	}
}

// receive subscribes and delivers events until the context or the connection
// ends, or until somebody else ends the subscription.
func (l *listener) receive(ctx context.Context, channel string, s *subscription) {
	command, err := l.driver.PublishCommand(ctx)
	if err != nil {
		return // the next round asks again
	}
	client := l.driver.client
	subscribe := client.B().Subscribe().Channel(channel).Build().Pin()
	if command == spublish {
		subscribe = client.B().Ssubscribe().Channel(channel).Build().Pin()
	}
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(event rueidis.PubSubSubscription) {
		subscribed := event.Kind == "subscribe" || event.Kind == "ssubscribe"
		if subscribed && l.confirm(s) {
			l.sink(driver.Event{Kind: driver.Subscribed, Channel: channel})
		}
	})
	var conn rueidis.CommandClient // the connection of the subscription
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, used rueidis.CommandClient) error {
		conn = used
		return err
	})
	// How it ended does not matter: s.wanted decides what is next.
	_ = client.Receive(hooked, subscribe, func(message rueidis.PubSubMessage) {
		if l.wants(s) {
			l.sink(driver.Event{Kind: driver.Message, Channel: channel, Payload: message.Message})
		}
	})
	// Not in the hook: until Receive has returned, nobody takes the messages
	// that the connection delivers ahead of the answer, and it would stall.
	if ctx.Err() != nil && conn != nil {
		unsubscribe(conn, command, channel)
	}
}

// unsubscribe ends a subscription on the connection that it was made on.
func unsubscribe(conn rueidis.CommandClient, command, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
	defer cancel()
	end := conn.B().Unsubscribe().Channel(channel).Build().Pin()
	if command == spublish {
		end = conn.B().Sunsubscribe().Channel(channel).Build().Pin()
	}
	// On a connection that fails the subscription ends by itself.
	_ = conn.Do(ctx, end).Error()
}

// pause waits before the next attempt, the longer the more have failed.
func pause(ctx context.Context, failures int) {
	longest := min(firstPause<<min(failures, 10), lastPause)
	timer := time.NewTimer(longest/2 + rand.N(longest/2)) //nolint:gosec // spreads reconnections, guards nothing
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
