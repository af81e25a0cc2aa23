package drivertest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var errTorn = errors.New("drivertest: the connection is torn")

// tornConn is a connection that ends after so many bytes have come, if that is not negative.
type tornConn struct {
	net.Conn

	left *atomic.Int64 // shared by all connections
}

func (c tornConn) Read(b []byte) (int, error) {
	b = b[:min(len(b), 16<<10)] // one that has begun already counts nothing
	left := c.left.Load()
	switch {
	case left < 0:
		return c.Conn.Read(b)
	case left == 0:
		c.left.Store(-1) // the next connection is whole
		_ = c.Close()
		return 0, errTorn
	}
	n, err := c.Conn.Read(b[:min(len(b), int(left))])
	c.left.CompareAndSwap(left, left-int64(n))
	return n, err
}

// testHalfAnswered loses the connection when some subscriptions are confirmed and
// others are not, in the middle of an answer.
func testHalfAnswered(t *testing.T, open Open) {
	server := redistest.Start(t)
	var left atomic.Int64
	left.Store(-1)
	at := single(server)
	at.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return tornConn{conn, &left}, err
	}
	d := open(t, at)
	l, r := listenTo(t, d)
	first := unique("half")
	l.Subscribe(first)
	r.awaitSubscribed(t, first, 1)
	left.Store(20_000)
	channels := make([]string, 1000)
	for i := range channels {
		channels[i] = unique("half")
		l.Subscribe(channels[i])
	}
	r.awaitSubscribed(t, first, 2)
	for _, channel := range channels {
		r.awaitSubscribed(t, channel, 1)
	}
	target := target(t, open, at, server)
	for _, channel := range []string{first, channels[0], channels[len(channels)-1]} {
		deliver(t, d, r, channel)
		awaitSubscribers(t, target, channel, 1)
	}
}

// testCloseDialling closes while the server cannot be reached.
func testCloseDialling(t *testing.T, open Open) {
	server := redistest.Start(t)
	at := single(server)
	var hang atomic.Bool
	var once sync.Once
	hanging := make(chan struct{})
	at.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !hang.Load() {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		once.Do(func() { close(hanging) })
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d := open(t, at)
	l := d.Listen(func(driver.Event) {})
	hang.Store(true)
	l.Subscribe(unique("dialling"))
	<-hanging
	closePromptly(t, l.Close)
}

// testCloseSilent closes while the server does not answer.
func testCloseSilent(t *testing.T, open Open) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	d := open(t, single(server).through(server, proxy))
	l, r := listenTo(t, d)
	subscribed, pending, ended := unique("silent"), unique("silent"), unique("silent")
	l.Subscribe(subscribed)
	l.Subscribe(ended)
	r.awaitSubscribed(t, subscribed, 1)
	r.awaitSubscribed(t, ended, 1)
	proxy.BlackHole(redistest.ToClient, true)
	l.Subscribe(pending)
	awaitSubscribers(t, target(t, open, single(server), server), pending, 1)
	l.Unsubscribe(ended)
	closePromptly(t, l.Close)
	awaitSubscribers(t, target(t, open, single(server), server), subscribed, 0)
}

// testDeliveredFirst loses the connection while a message is being delivered, and checks that nothing
// overtakes it.
func testDeliveredFirst(t *testing.T, open Open) {
	server := redistest.Start(t)
	d, r := open(t, single(server)), newRecorder()
	delivering, release := make(chan struct{}), make(chan struct{})
	l := d.Listen(func(event driver.Event) {
		if event.Kind == driver.Message {
			close(delivering)
			<-release
		}
		r.sink(event)
	})
	defer l.Close()
	channel := unique("delivering")
	l.Subscribe(channel)
	r.awaitSubscribed(t, channel, 1)
	announce(t, d, channel, "slow")
	<-delivering
	server.Cli(t, "CLIENT", "KILL", "TYPE", "pubsub")
	time.Sleep(quiet) // what is observed is that nothing happens
	if got := r.subscriptions(channel); got != 1 {
		t.Error("a confirmation has overtaken a message")
	}
	close(release)
	r.awaitSubscribed(t, channel, 2)
}
