package rueidisdriver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver/driverkit"
)

const (
	// pingInterval is how long a connection may be silent before it is sent a PING,
	// and how long it then has to answer.
	pingInterval = 1500 * time.Millisecond
	// firstDialLimit and lastDialLimit bound an attempt to connect, the later the more have failed. A
	// connection from the pool may have fallen silent there.
	firstDialLimit = 2 * pingInterval
	lastDialLimit  = 15 * time.Second
	// endLimit is how long a connection that ends has to show that it is not silent.
	endLimit = 300 * time.Millisecond
)

var errNoNode = errors.New("rueidisdriver: the client does not know the node")

// conn is one connection that subscribes, from its first dial to its end. It does not
// reconnect: its subscriptions are assigned to a new one.
type conn struct {
	listener  *listener
	addr      string // "": any node will do
	sharded   bool
	dialLimit time.Duration
	ctx       context.Context // ends with the connection
	cancel    context.CancelFunc
	wake      chan struct{} // tells the writer that there is something in the queue
	received  atomic.Bool   // something came since the watcher last looked
	from      *spare        // its new client made the connection; nil: the program's client did

	// Guarded by listener.mu.
	queue  []*subscription // to be sent, oldest first
	putOff []*subscription // to be unsubscribed when the server answers a PING
	ended  bool            // nothing is delivered any more

	deliveries sync.WaitGroup // calls of the sink; none begins once the connection has ended
}

func newConn(l *listener, addr string, sharded bool, failures uint8) *conn {
	c := &conn{listener: l, addr: addr, sharded: sharded, wake: make(chan struct{}, 1)}
	c.dialLimit = min(firstDialLimit<<failures, lastDialLimit)
	c.ctx, c.cancel = context.WithCancel(l.ctx)
	return c
}

// enqueue has the writer send what is wanted of a subscription. The caller holds listener.mu.
func (c *conn) enqueue(s *subscription) {
	if s.queued {
		return
	}
	s.queued = true
	c.queue = append(c.queue, s)
	driverkit.Notify(c.wake)
}

// run is the writer.
func (c *conn) run() {
	c.from = c.listener.driver.only.borrowFresh()
	client, known, err := c.dial()
	if err == nil {
		lost := client.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: c.message, OnSubscription: c.answer})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			defer c.cancel()
			c.watch(client, known, lost)
		})
		c.write(client)
		c.cancel()
		watcher.Wait()
	}
	c.cancel()
	c.listener.lost(c)
	if err == nil {
		end(client)
	}
	if c.from != nil {
		c.from.release()
	}
}

// dial returns a connection, and the addresses that it may be to.
func (c *conn) dial() (rueidis.DedicatedClient, []string, error) {
	node, known := c.node()
	if node == nil {
		return nil, nil, errNoNode
	}
	// Dedicate heeds no context. So this makes the connection, and leaves it for Dedicate to find.
	ctx, cancel := afterLimit(c.ctx, c.dialLimit)
	defer cancel()
	if err := node.Do(ctx, separate(node, "PING")).NonRedisError(); err != nil {
		return nil, nil, err
	}
	client, _ := node.Dedicate() // end releases it
	return client, known, nil
}

// client returns the client that the connection is of.
func (c *conn) client() rueidis.Client {
	if c.from != nil {
		return c.from.fresh
	}
	return c.listener.driver.client
}

// node returns where to connect, and by which addresses the client may know that.
func (c *conn) node() (node rueidis.Client, known []string) {
	client := c.client()
	nodes := client.Nodes()
	if c.addr != "" {
		return nodes[c.addr], nil // the server ends subscriptions by itself if the node is not the one any more
	}
	for addr, node := range nodes {
		if c.listener.driver.slotted {
			return node, []string{addr} // any node will do
		}
		known = append(known, addr)
	}
	if c.listener.driver.slotted {
		return nil, nil
	}
	return client, known
}

// watch returns when the connection is of no more use.
func (c *conn) watch(client rueidis.DedicatedClient, known []string, lost <-chan error) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-lost: //nolint:errcheck // why does not matter
			return
		case <-tick.C:
			if moved(c.client(), known) || !c.received.Swap(false) && !c.answers(client) {
				return
			}
			c.listener.retryUnsubscribe(c)
		}
	}
}

// answers reports whether a server answers a PING, or sends anything else meanwhile.
func (c *conn) answers(client rueidis.DedicatedClient) bool {
	ctx, cancel := context.WithTimeout(c.ctx, pingInterval)
	defer cancel()
	err := client.Do(ctx, client.B().Arbitrary("PING").Build().Pin()).NonRedisError()
	return err == nil || c.received.Load()
}

// end closes a connection. rueidis's Close waits for a silent server for a second, unless a blocking command
// is unanswered; so one is sent. The word PONG is for the case that rueidis takes the next answer for one to a PING
// of its own, see the package comment.
func end(client rueidis.DedicatedClient) {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	_ = client.Do(ctx, client.B().Arbitrary("ECHO", "PONG").Blocking().Pin()).Error()
	client.Close()
}

// separate returns a command that uses a connection of the blocking pool.
func separate(client rueidis.Client, words ...string) rueidis.Completed {
	return client.B().Arbitrary(words...).Blocking().ToPipe().Pin() // without ToPipe it uses another pool if DisableAutoPipelining is set
}

// afterLimit returns a context that is cancelled after a limit. It has no deadline, since
// rueidis heeds nothing else then.
func afterLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(limit, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}
