package goredisdriver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// pingInterval is how long a connection may be silent before it is sent a PING,
// and how long it then has to answer.
const pingInterval = 1500 * time.Millisecond

// conn is one subscriber connection, from its first dial to its end. It does not
// reconnect: its subscriptions are assigned to a new one.
type conn struct {
	server
	listener *listener
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	wake     chan struct{} // tells the writer that there are pending requests
	received atomic.Bool   // something came since the writer last looked

	// Guarded by listener.mu.
	assigned   int             // how many subscriptions are assigned here
	pending    map[string]bool // to be sent: subscribe if true, else unsubscribe
	unanswered []request       // sent, oldest first
}

func newConn(l *listener, at server) *conn {
	c := &conn{
		server:   at,
		listener: l,
		wake:     make(chan struct{}, 1),
		pending:  make(map[string]bool),
	}
	c.ctx, c.cancel = context.WithCancel(l.ctx)
	return c
}

// subscribe requests a subscription, also of a channel that the server may still
// have here, so that it is confirmed anew. The caller holds listener.mu.
func (c *conn) subscribe(channel string) {
	c.pending[channel] = true
	driverkit.Notify(c.wake)
}

// unsubscribe requests the end of a subscription. The caller holds listener.mu.
func (c *conn) unsubscribe(channel string) {
	c.pending[channel] = false
	driverkit.Notify(c.wake)
}

// run is the writer. It starts the reader once there is a connection, since
// otherwise the reader would dial as well.
func (c *conn) run() {
	pubsub := c.open(c.ctx)
	var reader sync.WaitGroup
	if err := c.sendPending(pubsub); err == nil {
		reader.Go(func() {
			defer c.cancel()
			c.read(pubsub)
		})
		c.write(pubsub)
	}
	c.cancel()
	_ = pubsub.Close() // fails only if it is closed
	reader.Wait()
	c.listener.lost(c)
}

// write sends requests, and a PING to a silent server. It returns when the
// connection is of no more use.
func (c *conn) write(pubsub *redis.PubSub) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	pinged := false
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
			if c.sendPending(pubsub) != nil {
				return
			}
		case <-tick.C:
			switch received := c.received.Swap(false); {
			case received || !c.listener.inUse(c):
				pinged = false
			case pinged:
				return
			default:
				pinged = true
				if pubsub.Ping(c.ctx) != nil {
					return
				}
			}
		}
	}
}

// sendPending sends each channel's request as a command of its own: one that is
// refused does not spoil the others, and they may lie in different slots.
func (c *conn) sendPending(pubsub *redis.PubSub) error {
	subscribe, unsubscribe := pubsub.Subscribe, pubsub.Unsubscribe
	if c.sharded {
		subscribe, unsubscribe = pubsub.SSubscribe, pubsub.SUnsubscribe
	}
	for _, request := range c.listener.takePending(c) {
		send := unsubscribe
		if request.subscribe {
			send = subscribe
		}
		if err := send(c.ctx, request.channel); err != nil {
			return err
		}
	}
	return nil
}

// read is the reader. It sets no deadline, because go-redis would lose its
// place if one passed in the middle of a message.
func (c *conn) read(pubsub *redis.PubSub) {
	for {
		message, err := receive(c.ctx, pubsub)
		if c.ctx.Err() != nil {
			return
		}
		c.received.Store(true)
		if err != nil {
			if isReply(err) && c.listener.refused(c) {
				continue
			}
			return
		}
		if !c.handle(message) {
			return
		}
	}
}

// receive is the next message. go-redis panics at one that no server sends, and nobody else could recover from that. The connection is closed then, so what
// go-redis has left on it does not matter.
func receive(ctx context.Context, pubsub *redis.PubSub) (message any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a malformed message: %v", r)
		}
	}()
	return pubsub.Receive(ctx)
}

// handle reports whether the connection is still of use after a message.
func (c *conn) handle(message any) bool {
	switch message := message.(type) {
	case *redis.Message:
		if c.listener.wants(c, message.Channel) {
			c.listener.sink(driver.Event{Kind: driver.Message, Channel: message.Channel, Payload: message.Payload})
		}
	case *redis.Subscription:
		switch message.Kind {
		case "unsubscribe", "sunsubscribe":
			c.listener.unsubscribed(c, message.Channel)
		case "subscribe", "ssubscribe":
			expected, wanted := c.listener.subscribed(c, message.Channel)
			if wanted {
				c.listener.sink(driver.Event{Kind: driver.Subscribed, Channel: message.Channel})
			}
			return expected
		}
	}
	return true
}
