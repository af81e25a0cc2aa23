package goredisdriver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// pulse is how long a connection may be silent before it is asked for a sign of
// life, and how long it then has to give one.
const pulse = 1500 * time.Millisecond

// link is one subscriber connection, from its first dial to its end. It is not
// revived: its wishes move to a new one.
type link struct {
	source
	listener *listener
	ctx      context.Context // ends with the link
	cancel   context.CancelFunc
	wake     chan struct{} // tells the writer that there are orders
	heard    atomic.Bool   // something came since the writer last looked

	// Guarded by listener.mu.
	channels map[string]struct{} // the wishes placed here
	orders   map[string]bool     // to be sent: subscribe if true, else unsubscribe
	sent     []order             // those the server has not answered, oldest first
}

func newLink(l *listener, src source) *link {
	k := &link{
		source:   src,
		listener: l,
		wake:     make(chan struct{}, 1),
		channels: make(map[string]struct{}),
		orders:   make(map[string]bool),
	}
	k.ctx, k.cancel = context.WithCancel(l.ctx)
	return k
}

// join orders a subscription, also of a channel that the server may still have
// here, so that it is confirmed anew. The caller holds listener.mu.
func (k *link) join(channel string) {
	k.channels[channel] = struct{}{}
	k.orders[channel] = true
	poke(k.wake)
}

// leave orders an end of a subscription. The caller holds listener.mu.
func (k *link) leave(channel string) {
	delete(k.channels, channel)
	k.orders[channel] = false
	poke(k.wake)
}

// run is the writer. It starts the reader once there is a connection, since
// otherwise the reader would dial as well.
func (k *link) run() {
	pubsub := k.open(k.ctx)
	var reader sync.WaitGroup
	if err := k.obey(pubsub); err == nil {
		reader.Go(func() {
			defer k.cancel()
			k.read(pubsub)
		})
		k.write(pubsub)
	}
	k.cancel()
	_ = pubsub.Close() // fails only if it is closed
	reader.Wait()
	k.listener.lost(k)
}

// write sends orders, and asks a silent server for a sign of life. It returns
// when the connection is of no more use.
func (k *link) write(pubsub *redis.PubSub) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	asked := false
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-k.wake:
			if k.obey(pubsub) != nil {
				return
			}
		case <-tick.C:
			switch heard := k.heard.Swap(false); {
			case heard || !k.listener.wanted(k):
				asked = false
			case asked:
				return
			default:
				asked = true
				if pubsub.Ping(k.ctx) != nil {
					return
				}
			}
		}
	}
}

// obey sends the orders. Each channel has a command of its own: one that is
// refused does not spoil the others, and they may lie in different slots.
func (k *link) obey(pubsub *redis.PubSub) error {
	join, leave := pubsub.Subscribe, pubsub.Unsubscribe
	if k.sharded {
		join, leave = pubsub.SSubscribe, pubsub.SUnsubscribe
	}
	for _, order := range k.listener.takeOrders(k) {
		send := leave
		if order.join {
			send = join
		}
		if err := send(k.ctx, order.channel); err != nil {
			return err
		}
	}
	return nil
}

// read is the reader. It sets no deadline, because go-redis would lose its
// place if one passed in the middle of a message.
func (k *link) read(pubsub *redis.PubSub) {
	for {
		message, err := pubsub.Receive(k.ctx)
		if k.ctx.Err() != nil {
			return
		}
		k.heard.Store(true)
		if err != nil {
			if isReply(err) && k.listener.refused(k) {
				continue
			}
			return
		}
		if !k.handle(message) {
			return
		}
	}
}

// handle reports whether the link is still of use after what the server said.
func (k *link) handle(message any) bool {
	switch message := message.(type) {
	case *redis.Message:
		if k.listener.wants(k, message.Channel) {
			k.listener.sink(driver.Event{Kind: driver.Message, Channel: message.Channel, Payload: message.Payload})
		}
	case *redis.Subscription:
		switch message.Kind {
		case "unsubscribe", "sunsubscribe":
			k.listener.left(k, message.Channel)
		case "subscribe", "ssubscribe":
			expected, wanted := k.listener.joined(k, message.Channel)
			if wanted {
				k.listener.sink(driver.Event{Kind: driver.Subscribed, Channel: message.Channel})
			}
			return expected
		}
	}
	return true
}
