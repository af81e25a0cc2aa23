package rueidisdriver

import (
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// postponed are subscriptions that have failed together.
type postponed struct {
	until         time.Time
	subscriptions []*subscription
}

// run is the assigner.
func (l *listener) run() { driverkit.RunAssigner(l.ctx, l.wake, l.due, l.assignAll) }

// due returns the subscriptions whose time has come and, if there are none, how long it
// is until there may be one.
func (l *listener) due() (due []*subscription, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause = time.Hour
	if l.closed {
		return nil, pause
	}
	due, l.unassigned = l.unassigned, nil
	var later []postponed
	for _, group := range l.postponed {
		wait := time.Until(group.until)
		if wait <= 0 {
			due = append(due, group.subscriptions...)
			continue
		}
		later = append(later, group)
		pause = min(pause, wait)
	}
	l.postponed = later
	return due, pause
}

func (l *listener) assignAll(due []*subscription) {
	command, err := l.driver.PublishCommand(l.ctx)
	sharded := command == spublish
	bySlot := sharded && l.driver.slotted
	if err == nil && bySlot && l.slotsMoved() {
		l.slots, err = l.driver.slotTable(l.ctx)
	}
	if err != nil {
		l.homeless(due) // the others would wait for the same answer
		return
	}
	var homeless []*subscription
	for _, s := range due {
		addr, ok := "", true
		if bySlot {
			addr, ok = l.slots.owner(l.driver.slotOf(s.channel))
		}
		if ok {
			l.assign(s, addr, sharded)
		} else {
			homeless = append(homeless, s)
		}
	}
	l.homeless(homeless)
}

// homeless notes that nobody says where to subscribe.
func (l *listener) homeless(due []*subscription) {
	if len(due) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = true
	l.postpone(due)
}

// slotsMoved reports whether the owners of slots have to be asked for.
func (l *listener) slotsMoved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved := l.moved
	l.moved = false
	return moved
}

// assign gives a subscription its connection, and makes that if there is none.
func (l *listener) assign(s *subscription, addr string, sharded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.subscriptions[s.channel] != s {
		return // it has been unsubscribed
	}
	c := l.conns[addr]
	if c == nil {
		c = newConn(l, addr, sharded, s.failures)
		l.conns[addr] = c
		l.goroutines.Go(c.run)
	}
	s.conn = c
	c.enqueue(s)
}

// postpone takes subscriptions from their connections, to be assigned again after
// a pause that grows with the number of failures. The caller holds mu.
func (l *listener) postpone(failed []*subscription) {
	group := make([]*subscription, 0, len(failed))
	fewest := uint8(10)
	for _, s := range failed {
		if l.subscriptions[s.channel] != s {
			continue
		}
		if !s.wanted {
			delete(l.subscriptions, s.channel)
			continue
		}
		// The fewest decide: one that is refused again and again does not slow down the others.
		fewest = min(fewest, s.failures)
		s.failures = min(s.failures+1, 10)
		s.conn, s.queued = nil, false
		group = append(group, s)
	}
	if len(group) == 0 {
		return
	}
	pause := driverkit.Backoff(int(fewest), driverkit.Jitter())
	l.postponed = append(l.postponed, postponed{time.Now().Add(pause), group})
	driverkit.Notify(l.wake)
}

// refused notes that the server has refused subscriptions.
func (l *listener) refused(c *conn, refusals map[*subscription]*rueidis.RedisError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := make([]*subscription, 0, len(refusals))
	for s, refusal := range refusals {
		if s.conn != c || s.queued {
			continue // the server has ended it, or it is about to be sent again
		}
		if !strings.HasPrefix(refusal.Error(), "NOPERM") {
			l.moved = true
		}
		failed = append(failed, s)
	}
	l.postpone(failed)
}

// lost notes the end of a connection. Its subscriptions are assigned again.
func (l *listener) lost(c *conn) {
	l.mu.Lock()
	c.ended = true
	l.mu.Unlock()
	c.deliveries.Wait() // or the next connection's events might overtake them
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c.addr)
	c.queue = nil
	if l.closed {
		return
	}
	var orphans []*subscription
	for _, s := range l.subscriptions {
		if s.conn == c {
			orphans = append(orphans, s)
		}
	}
	l.moved = true
	l.postpone(orphans)
}
