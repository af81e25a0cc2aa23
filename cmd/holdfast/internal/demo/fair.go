package demo

import (
	"context"
	"errors"
	"fmt"
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

// line is a fair lock, and those who wait for it.
type line struct {
	*show
	name    string
	first   *holdfast.Hold // who holds it when they come
	waiters []*waiter
}

// waiter is one of them, with a client of its own.
type waiter struct {
	owner  string
	giveUp context.CancelFunc
	got    <-chan taken
}

// newLine takes a fair lock, and lets several come, each when the one before it
// stands in line.
func (s *show) newLine(name string, n int) *line {
	l := &line{show: s, name: s.key(name)}
	s.keys = append(s.keys,
		protocol.FairQueueKey(l.name), protocol.FairTimeoutsKey(l.name), protocol.FairHeartbeatsKey(l.name))
	l.first = must(s.client().NewFairMutex(l.name).Lock(s.ctx))
	for i := range n {
		client := s.client()
		owner := client.NewOwner()
		waiting, giveUp := context.WithCancel(holdfast.WithOwner(s.ctx, owner))
		s.atEnd(giveUp)
		got := s.take(waiting, client.NewFairMutex(l.name))
		l.waiters = append(l.waiters, &waiter{owner: owner.String(), giveUp: giveUp, got: got})
		l.stands(i + 1)
	}
	return l
}

// owners are who stands in line.
func (l *line) owners() []string {
	return must(l.rdb.LRange(l.ctx, protocol.FairQueueKey(l.name), 0, -1).Result())
}

// stands waits until so many stand in line.
func (l *line) stands(n int) {
	stand := l.eventually(func() bool { return len(l.owners()) == n })
	promise(stand, "%d owners should stand in line, but others do: %v", n, l.owners())
}

// tell says who stands in line, and checks that it is these.
func (l *line) tell(words string, want ...*waiter) {
	owners := l.owners()
	l.pointf("%s: %s", words, shortened(owners...))
	promise(slices.Equal(owners, ownersOf(want)), "%v should stand in line, but %v do", ownersOf(want), owners)
}

func ownersOf(waiters []*waiter) []string {
	owners := make([]string, len(waiters))
	for i, w := range waiters {
		owners[i] = w.owner
	}
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
func (l *line) serve(waiting []*waiter) {
	check(l.first.Unlock())
	served := make(chan taken, len(waiting))
	for _, w := range waiting {
		go func() {
			t := <-w.got
			if t.err == nil {
				time.Sleep(stayed)
				t.err = t.hold.Unlock()
			}
			served <- t
		}()
	}
	all := make([]taken, len(waiting))
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
	promise(slices.Equal(order, ownersOf(waiting)), "%v stood in line, but %v was the order in which they got the lock",
		ownersOf(waiting), order)
}

// inOrder compares the order of arrival with that of service.
func (s *show) inOrder() {
	s.sayf("One owner holds the lock, and %d come to wait, each with a client of its own, like %d processes. Then the lock "+
		"goes from one to the next. This is the line as LRANGE answers it, the first 8 characters of each owner:",
		queueing, queueing)
	l := s.newLine("fair", queueing)
	l.tell("They came as", l.waiters...)
	l.serve(l.waiters)
	s.pointf("That is the order in which they came, over all processes. With a mutex it is so as a rule.")
	s.measuredf("Fairness: %d of %d waiters got the lock in the order in which they came.", queueing, queueing)
}

// outOfLine lets one of three give up.
func (s *show) outOfLine() {
	s.sayf("Who gives up must not keep those behind it waiting. Of three that stand in line, the second gives up:")
	l := s.newLine("patience", 3)
	l.tell("In line", l.waiters...)
	gone := l.waiters[1]
	gone.giveUp()
	t := <-gone.got
	promise(errors.Is(t.err, context.Canceled), "one gave up, and was not told so: %w", t.err)
	began := time.Now()
	l.stands(2)
	after := millis(time.Since(began))
	rest := []*waiter{l.waiters[0], l.waiters[2]}
	l.tell(fmt.Sprintf("%s after %s has given up", after, shortened(gone.owner)), rest...)
	l.serve(rest)
	s.measuredf("Giving up: the place in line was gone %s later.", after)
}
