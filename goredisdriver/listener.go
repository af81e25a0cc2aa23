package goredisdriver

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// listener keeps the wishes and places them on links. The package comment says
// which goroutine does what.
type listener struct {
	driver *Driver
	sink   func(driver.Event)
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // tells the placer that there is a wish without a link
	work   sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the links' channels and orders
	closed bool
	wishes map[string]*wish
	loose  map[string]*wish // the wishes that have no link
	links  map[any]*link    // by source.key
}

// wish is a channel that somebody wants to hear.
type wish struct {
	link     *link     // nil while loose
	failures int       // since the last confirmation
	after    time.Time // when to place it
}

// source is where a channel is to be subscribed.
type source struct {
	key     any // equal for the same node
	sharded bool
	open    func(context.Context, ...string) *redis.PubSub // no I/O without channels
}

// Listen returns a listener that uses one connection, or one for each primary
// of a cluster with sharded pub/sub.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{
		driver: d,
		sink:   sink,
		ctx:    ctx,
		cancel: cancel,
		wake:   make(chan struct{}, 1),
		wishes: make(map[string]*wish),
		loose:  make(map[string]*wish),
		links:  make(map[any]*link),
	}
	l.work.Go(l.place)
	return l
}

// Subscribe wishes for a channel.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.wishes[channel] != nil {
		return
	}
	w := new(wish)
	l.wishes[channel] = w
	l.loose[channel] = w
	poke(l.wake)
}

// Unsubscribe takes a wish back.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.wishes[channel]
	if l.closed || w == nil {
		return
	}
	delete(l.wishes, channel)
	delete(l.loose, channel)
	if w.link != nil {
		w.link.leave(channel)
	}
}

// Close ends all subscriptions and waits for the goroutines.
func (l *listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
}

// place is the placer.
func (l *listener) place() {
	for {
		due, pause := l.due()
		if len(due) > 0 {
			l.placeAll(due)
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-l.wake:
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// due returns the loose channels whose time has come and, if there are none,
// how long it is until there may be one.
func (l *listener) due() (channels []string, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause = time.Hour
	if l.closed {
		return nil, pause
	}
	for channel, w := range l.loose {
		wait := time.Until(w.after)
		if wait <= 0 {
			channels = append(channels, channel)
		}
		pause = min(pause, wait)
	}
	return channels, pause
}

func (l *listener) placeAll(channels []string) {
	for i, channel := range channels {
		src, err := l.driver.source(l.ctx, channel)
		if err != nil {
			// No node could say who is in charge. The others would wait for
			// the same answer, so all of them try again later.
			l.mu.Lock()
			l.postpone(channels[i:])
			l.mu.Unlock()
			return
		}
		l.assign(channel, src)
	}
}

// source finds the node that a channel is to be subscribed at.
func (d *Driver) source(ctx context.Context, channel string) (source, error) {
	command, err := d.PublishCommand(ctx)
	switch {
	case err != nil:
		return source{}, err
	case command == publish:
		return source{key: publish, open: d.rdb.Subscribe}, nil
	case d.cluster == nil:
		return source{key: spublish, sharded: true, open: d.rdb.SSubscribe}, nil
	}
	node, err := d.cluster.MasterForKey(ctx, channel)
	if err != nil {
		return source{}, err
	}
	return source{key: node, sharded: true, open: node.SSubscribe}, nil
}

// assign gives a loose wish its link and makes the link if need be.
func (l *listener) assign(channel string, src source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.loose[channel]
	if w == nil || l.closed {
		return
	}
	k := l.links[src.key]
	if k == nil {
		k = newLink(l, src)
		l.links[src.key] = k
		l.work.Go(k.run)
	}
	delete(l.loose, channel)
	w.link = k
	k.join(channel)
}

// postpone makes wishes loose and due after a pause that grows with the number
// of failures. The caller holds mu.
func (l *listener) postpone(channels []string) {
	spread := 0.5 + rand.Float64()/2 //nolint:gosec // spreads reconnections, guards nothing
	for _, channel := range channels {
		w := l.wishes[channel]
		if w == nil {
			continue
		}
		pause := min(firstPause<<min(w.failures, 10), lastPause)
		w.failures++
		w.link = nil
		w.after = time.Now().Add(time.Duration(float64(pause) * spread))
		l.loose[channel] = w
	}
	if l.driver.cluster != nil {
		l.driver.cluster.ReloadState(l.ctx) // returns at once
	}
	poke(l.wake)
}

// The pauses between attempts to subscribe.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// poke leaves a mark for a goroutine that looks at everything when it wakes.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it is marked already
	}
}
