package rueidisdriver

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// maxRequests is how many requests are sent together.
const maxRequests = 500

// write sends what is in the queue. It returns when the connection is of no more use.
func (c *conn) write(client rueidis.DedicatedClient) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		}
		for {
			begin, end := c.listener.takeQueued(c)
			if len(begin)+len(end) == 0 {
				break
			}
			if !c.subscribe(client, begin) || !c.unsubscribe(client, end) {
				return
			}
		}
	}
}

// takeQueued returns the next subscriptions that are to begin and to end.
func (l *listener) takeQueued(c *conn) (begin, end []*subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(c.queue), maxRequests)
	for _, s := range c.queue[:n] {
		s.queued = false
		if s.wanted {
			begin = append(begin, s)
		} else {
			end = append(end, s)
		}
	}
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	return begin, end
}

// subscribe reports whether all requests have been answered. The confirmations come to answer.
func (c *conn) subscribe(client rueidis.DedicatedClient, begin []*subscription) bool {
	commands := make(rueidis.Commands, len(begin))
	for i, s := range begin {
		if c.sharded {
			commands[i] = client.B().Ssubscribe().Channel(s.channel).Build().Pin()
		} else {
			commands[i] = client.B().Subscribe().Channel(s.channel).Build().Pin()
		}
	}
	refusals := make(map[*subscription]*rueidis.RedisError)
	for i, result := range client.DoMulti(c.ctx, commands...) {
		if result.NonRedisError() != nil {
			return false
		}
		if refusal, ok := rueidis.IsRedisErr(result.Error()); ok {
			refusals[begin[i]] = refusal
		}
	}
	c.listener.refused(c, refusals)
	return true
}

// unsubscribe reports whether the connection is still of use.
func (c *conn) unsubscribe(client rueidis.DedicatedClient, end []*subscription) bool {
	if len(end) == 0 {
		return true
	}
	if !c.pingAllowed(client) {
		c.listener.putOff(c, end)
		return true
	}
	commands := make(rueidis.Commands, len(end))
	for i, s := range end {
		if c.sharded {
			commands[i] = client.B().Sunsubscribe().Channel(s.channel).Build().Pin()
		} else {
			commands[i] = client.B().Unsubscribe().Channel(s.channel).Build().Pin()
		}
	}
	for _, result := range client.DoMulti(c.ctx, commands...) {
		if !ended(result) {
			return false
		}
	}
	c.listener.forget(c, end)
	return true
}

// ended reports whether UNSUBSCRIBE has been answered: also with an error of its own, since then there is nothing to
// end, or nothing to be done about it. Any other is one to rueidis's PING, and loses rueidis its place.
func ended(result rueidis.RedisResult) bool {
	if result.NonRedisError() != nil {
		return false
	}
	refusal, refused := rueidis.IsRedisErr(result.Error())
	if !refused {
		return true
	}
	_, moved := refusal.IsMoved()
	return moved || strings.HasPrefix(refusal.Error(), "NOPERM")
}

// pingAllowed reports whether rueidis will bear the answer to a PING.
func (c *conn) pingAllowed(client rueidis.DedicatedClient) bool {
	err := client.Do(c.ctx, client.B().Arbitrary("PING").Build().Pin()).Error()
	refusal, ok := rueidis.IsRedisErr(err)
	return err == nil || ok && strings.HasPrefix(refusal.Error(), "NOPERM")
}

// putOff leaves subscriptions that are not wanted to retryUnsubscribe.
func (l *listener) putOff(c *conn, end []*subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.putOff = append(c.putOff, end...)
}

// retryUnsubscribe has what was put off sent again, unless it is wanted again.
func (l *listener) retryUnsubscribe(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range c.putOff {
		if s.conn == c && !s.wanted {
			c.enqueue(s)
		}
	}
	c.putOff = nil
}

// forget drops subscriptions that have ended, unless they are wanted again.
func (l *listener) forget(c *conn, ended []*subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range ended {
		if s.conn == c && !s.queued {
			delete(l.subscriptions, s.channel)
		}
	}
}

// message delivers a message, if it is wanted.
func (c *conn) message(m rueidis.PubSubMessage) {
	c.received.Store(true)
	c.deliver(driver.Event{Kind: driver.Message, Channel: m.Channel, Payload: m.Message})
}

// answer takes what the server says of a subscription.
func (c *conn) answer(a rueidis.PubSubSubscription) {
	c.received.Store(true)
	switch a.Kind {
	case "subscribe", "ssubscribe":
		c.deliver(driver.Event{Kind: driver.Subscribed, Channel: a.Channel})
	case "unsubscribe", "sunsubscribe":
		c.listener.endedByServer(c, a.Channel)
	}
}

// deliver calls the sink, if the channel is wanted on this connection.
func (c *conn) deliver(event driver.Event) {
	if c.listener.beginDelivery(c, event) {
		defer c.deliveries.Done()
		c.listener.sink(event)
	}
}

// beginDelivery reports whether an event is to be delivered, and notes that it is.
func (l *listener) beginDelivery(c *conn, event driver.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[event.Channel]
	if l.closed || c.ended || s == nil || s.conn != c || !s.wanted {
		return false
	}
	if event.Kind == driver.Subscribed {
		s.failures = 0
	}
	c.deliveries.Add(1)
	return true
}

// endedByServer notes that the server has ended a subscription. If nobody requested that, the
// slot has moved, and the subscription moves after it. What is queued is requested anew anyway.
func (l *listener) endedByServer(c *conn, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[channel]
	if s == nil || s.conn != c || !s.wanted || s.queued {
		return
	}
	l.moved = true
	l.postpone([]*subscription{s})
}
