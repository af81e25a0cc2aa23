package scale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/internal/call"
)

// Subscribers are what a subscriber costs a server.
type Subscribers struct {
	Listeners                   int
	ListenerBytes, ChannelBytes float64
	MessageMicros               float64 // for one message to one listener
}

// subscribers has bare connections listen.
func (r *Run) subscribers(ctx context.Context) (err error) {
	channel, f := r.ID+":channel", Subscribers{Listeners: r.Sizes.listeners}
	l := &listeners{addr: r.server.Addrs[0]}
	defer func() { err = errors.Join(err, l.close()) }()
	if f.ListenerBytes, err = r.grows(ctx, r.Sizes.listeners, func() error {
		for range r.Sizes.listeners {
			if err := l.listen(ctx, channel); err != nil {
				return err
			}
		}
		return r.await(ctx, channel, r.Sizes.listeners)
	}); err != nil {
		return err
	}
	if f.MessageMicros, err = r.publish(ctx, channel); err != nil {
		return err
	}
	if f.ChannelBytes, err = r.channels(ctx); err != nil {
		return err
	}
	r.report.Subscribers = f
	return nil
}

// grows is how much of the server's memory each of so many takes.
func (r *Run) grows(ctx context.Context, n int, f func() error) (bytes float64, err error) {
	empty, err := r.server.Memory(ctx)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	full, err := r.server.Memory(ctx)
	return float64(full-empty) / float64(n), err
}

// publish tells all listeners something some times, and returns the server's time for one
// message to one of them.
func (r *Run) publish(ctx context.Context, channel string) (micros float64, err error) {
	before, err := r.server.Spent(ctx)
	if err != nil {
		return 0, err
	}
	for range r.Sizes.messages {
		if err := r.server.Nodes[0].Publish(ctx, channel, "0").Err(); err != nil {
			return 0, err
		}
	}
	after, err := r.server.Spent(ctx)
	if err != nil {
		return 0, err
	}
	n := r.Sizes.messages * r.Sizes.listeners
	return float64(after.Since(before).Total().CPU) / float64(time.Microsecond) / float64(n), nil
}

// channels subscribes one connection to many channels, and returns the server's memory for one.
func (r *Run) channels(ctx context.Context) (bytes float64, err error) {
	first, names := r.ID+":first", held.MakeNames(r.ID+":channel", r.Sizes.channels)
	l := &listeners{addr: r.server.Addrs[0]}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := errors.Join(l.listen(ctx, first), r.await(ctx, first, 1)); err != nil {
		return 0, err
	}
	if err := places.AwaitQuiet(ctx); err != nil { // what the server has still to send is no part of it
		return 0, err
	}
	return r.grows(ctx, len(names), func() error {
		for _, name := range names {
			if err := l.subscribe(0, name); err != nil {
				return err
			}
		}
		return errors.Join(r.await(ctx, names[len(names)-1], 1), places.AwaitQuiet(ctx))
	})
}

// await returns once a channel has so many subscribers.
func (r *Run) await(ctx context.Context, channel string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		got, err := r.server.Nodes[0].PubSubNumSub(ctx, channel).Result()
		if err == nil && got[channel] == int64(n) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d subscribers: %w", got[channel], n, errors.Join(err, context.Cause(ctx)))
		}
		call.Sleep(ctx, 20*time.Millisecond) // between two questions
	}
}

// listeners are connections that are subscribed and read nothing but to drop it. Each has a
// goroutine, which ends with its connection.
type listeners struct {
	addr  string
	conns []net.Conn
	group sync.WaitGroup
}

func (l *listeners) listen(ctx context.Context, channel string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return err
	}
	l.conns = append(l.conns, conn)
	l.group.Go(func() {
		for buffer := make([]byte, contenders.SmallBuffer); ; {
			if _, err := conn.Read(buffer); err != nil {
				return // closed
			}
		}
	})
	return l.subscribe(len(l.conns)-1, channel)
}

func (l *listeners) subscribe(i int, channel string) error {
	_, err := fmt.Fprintf(l.conns[i], "SUBSCRIBE %s\r\n", channel)
	return err
}

func (l *listeners) close() (err error) {
	for _, conn := range l.conns {
		err = errors.Join(err, conn.Close())
	}
	l.group.Wait()
	return err
}
