package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	// queueing is how many wait for the fair lock.
	queueing = 5
	// stayed is how long each of them holds it.
	stayed = 100 * time.Millisecond
)

var fairShow = Show{
	Name:  "fair",
	About: "waiters of all processes are served in the order they came",
	intro: "A fair mutex there is the same key as a mutex, and beside it the line of those who wait.",
	scenes: []scene{
		{"First come, first served", (*show).inOrder},
		{"One gives up", (*show).outOfLine},
	},
}

// line is a fair lock, and those who wait for it, each with a client of its own.
type line struct {
	*show
	name    string
	first   *holdfast.Hold // who holds it when they come
	waiters []waiter
}

// waiter is one of them.
type waiter struct {
	owner  string
	giveUp context.CancelFunc
	got    <-chan taken
}

// newLine takes a fair lock, and lets several come, each when the one before it
// stands in line.
func (s *show) newLine(name string, n int) *line {
	l := &line{show: s}
	l.name = s.key(name, protocol.FairQueueKey, protocol.FairTimeoutsKey, protocol.FairHeartbeatsKey)
	l.first = must(s.client().NewFairMutex(l.name).Lock(s.ctx))
	for range n {
		client := s.client()
		owner := client.NewOwner()
		waiting, giveUp := context.WithCancel(holdfast.WithOwner(s.ctx, owner))
		s.atEnd(giveUp)
		l.waiters = append(l.waiters, waiter{owner.String(), giveUp, s.take(waiting, client.NewFairMutex(l.name))})
		l.stands()
	}
	return l
}

// owners are those who wait, as they came.
func (l *line) owners() []string {
	owners := make([]string, len(l.waiters))
	for i, w := range l.waiters {
		owners[i] = w.owner
	}
	return owners
}

// stands waits until just those stand in line who wait, and returns them as Redis has them.
func (l *line) stands() (owners []string) {
	stand := l.eventually(func() bool {
		owners = must(l.rdb.LRange(l.ctx, protocol.FairQueueKey(l.name), 0, -1).Result())
		return slices.Equal(owners, l.owners())
	})
	promise(stand, "%v should stand in line, but %v do", l.owners(), owners)
	return owners
}

// shortened are owners in a form to compare them by eye.
func shortened(owners ...string) string {
	short := make([]string, len(owners))
	for i, owner := range owners {
		short[i] = owner[:min(8, len(owner))]
	}
	return strings.Join(short, " ")
}

// serve lets those who wait have the lock, says who got it in which order, and checks that order.
func (l *line) serve() {
	check(l.first.Unlock())
	served := make(chan taken, len(l.waiters))
	for _, w := range l.waiters {
		go func() {
			t := <-w.got
			if t.err == nil {
				time.Sleep(stayed)
				t.err = t.hold.Unlock()
			}
			served <- t
		}()
	}
	all := make([]taken, len(l.waiters))
	for i := range all {
		all[i] = <-served
		check(all[i].err)
	}
	slices.SortFunc(all, func(a, b taken) int { return a.at.Compare(b.at) })
	order := make([]string, len(all))
	for i, t := range all {
		order[i] = t.hold.Owner().String()
	}
	l.pointf("They got it as: %s", shortened(order...))
	promise(slices.Equal(order, l.owners()), "%v stood in line, but %v got the lock", l.owners(), order)
}

// inOrder compares the order of arrival with that of service.
func (s *show) inOrder() {
	s.sayf("One owner holds the lock, and %d come to wait, each with a client of its own, like %d processes. Then the lock "+
		"goes from one to the next. This is the line as LRANGE answers it, the first 8 characters of each owner:",
		queueing, queueing)
	l := s.newLine("fair", queueing)
	s.pointf("They came as: %s", shortened(l.stands()...))
	l.serve()
	s.pointf("That is the order in which they came, over all processes. With a mutex it is so as a rule.")
	s.measuredf("Fairness: %d of %d waiters got the lock in the order in which they came.", queueing, queueing)
}

// outOfLine lets one of three give up.
func (s *show) outOfLine() {
	s.sayf("Who gives up must not keep those behind it waiting. Of three that stand in line, the second gives up:")
	l := s.newLine("patience", 3)
	s.pointf("In line: %s", shortened(l.stands()...))
	gone := l.waiters[1]
	gone.giveUp()
	t := <-gone.got
	promise(errors.Is(t.err, context.Canceled), "one gave up, and was not told so: %w", t.err)
	l.waiters = slices.Delete(l.waiters, 1, 2)
	began := time.Now()
	owners := l.stands()
	after := millis(time.Since(began))
	s.pointf("%s after %s has given up: %s", after, shortened(gone.owner), shortened(owners...))
	l.serve()
	s.measuredf("Giving up: the place in line was gone %s later.", after)
}
