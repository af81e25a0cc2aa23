package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscribersRecord is what a subscriber costs a server.
type subscribersRecord struct {
	Kind          string  `json:"kind"`
	Listeners     int     `json:"listeners"`
	ListenerBytes float64 `json:"redis_bytes_per_listener"`
	ChannelBytes  float64 `json:"redis_bytes_per_channel"`
	MessageMicros float64 `json:"redis_cpu_us_per_message"`
}

// subscribers has bare connections listen.
func (r *scaleRun) subscribers(ctx context.Context) (err error) {
	node, channel := r.server.nodes[0], r.id+":channel"
	record := subscribersRecord{Kind: "subscribers", Listeners: r.sizes.listeners}
	empty, err := usedMemory(ctx, node)
	if err != nil {
		return err
	}
	l := &listeners{}
	defer func() { err = errors.Join(err, l.close()) }()
	for range r.sizes.listeners {
		if err := l.listen(ctx, r.job.addr, channel); err != nil {
			return err
		}
	}
	if err := await(ctx, node, channel, r.sizes.listeners); err != nil {
		return err
	}
	full, err := usedMemory(ctx, node)
	if err != nil {
		return err
	}
	record.ListenerBytes = float64(full-empty) / float64(r.sizes.listeners)
	if record.MessageMicros, err = r.publish(ctx, node, channel); err != nil {
		return err
	}
	if record.ChannelBytes, err = r.channels(ctx, node); err != nil {
		return err
	}
	r.report.subscribers = record
	return nil
}

// publish tells all listeners something some times, and returns the server's time for one
// message to one of them.
func (r *scaleRun) publish(ctx context.Context, node *redis.Client, channel string) (micros float64, err error) {
	m := meter{node}
	before, err := m.cpu(ctx)
	if err != nil {
		return 0, err
	}
	for range r.sizes.messages {
		if err := node.Publish(ctx, channel, "0").Err(); err != nil {
			return 0, err
		}
	}
	after, err := m.cpu(ctx)
	n := r.sizes.messages * r.sizes.listeners
	return float64(after-before) / float64(time.Microsecond) / float64(n), err
}

// channels subscribes one connection to many channels, and returns the server's memory for one.
func (r *scaleRun) channels(ctx context.Context, node *redis.Client) (bytes float64, err error) {
	names := makeNames(r.id+":channel", r.sizes.channels)
	l := &listeners{}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.listen(ctx, r.job.addr, r.id+":first"); err != nil {
		return 0, err
	}
	if err := await(ctx, node, r.id+":first", 1); err != nil {
		return 0, err
	}
	if err := awaitQuiet(ctx); err != nil { // what the server has still to send is no part of it
		return 0, err
	}
	empty, err := usedMemory(ctx, node)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if err := l.subscribe(0, name); err != nil {
			return 0, err
		}
	}
	if err := await(ctx, node, names[len(names)-1], 1); err != nil {
		return 0, err
	}
	if err := awaitQuiet(ctx); err != nil {
		return 0, err
	}
	full, err := usedMemory(ctx, node)
	return float64(full-empty) / float64(len(names)), err
}

// listeners are connections that are subscribed and read nothing but to drop it. Each has a
// goroutine, which ends with its connection.
type listeners struct {
	conns []net.Conn
	group sync.WaitGroup
}

func (l *listeners) listen(ctx context.Context, addr, channel string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	l.conns = append(l.conns, conn)
	l.group.Go(func() {
		for buffer := make([]byte, smallBuffer); ; {
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

// await returns once a channel has so many subscribers.
func await(ctx context.Context, node *redis.Client, channel string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	for {
		got, err := node.PubSubNumSub(ctx, channel).Result()
		if err == nil && got[channel] == int64(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d subscribers: %w", got[channel], n, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond): // between two questions
		}
	}
}
