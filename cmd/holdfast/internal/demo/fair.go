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
	closers []func()
}

// waiter is one of them, with a client of its own.
type waiter struct {
	owner  holdfast.Owner
	giveUp context.CancelFunc
	got    chan taken // capacity 1
}

// newLine takes a fair lock, and lets several come, each when the one before it
// stands in line.
func (s *show) newLine(ctx context.Context, name string, n int) (*line, error) {
	l := &line{show: s, name: s.key(name)}
	s.keys = append(s.keys, protocol.FairQueueKey(l.name), protocol.FairTimeoutsKey(l.name), protocol.FairHeartbeatsKey(l.name))
	client, err := l.client()
	if err != nil {
		return l, err
	}
	if l.first, err = client.NewFairMutex(l.name).Lock(ctx); err != nil {
		return l, err
	}
	for i := range n {
		client, err := l.client()
		if err != nil {
			return l, err
		}
		w := &waiter{owner: client.NewOwner(), got: make(chan taken, 1)}
		var waiting context.Context
		waiting, w.giveUp = context.WithCancel(ctx)
		l.closers = append(l.closers, w.giveUp)
		l.waiters = append(l.waiters, w)
		go func() { w.got <- take(holdfast.WithOwner(waiting, w.owner), client.NewFairMutex(l.name)) }()
		if err := l.stands(ctx, i+1); err != nil {
			return l, err
		}
	}
	return l, nil
}

// client is a client that is closed with the line.
func (l *line) client() (*holdfast.Client, error) {
	client, done, err := l.show.client(nil)
	if err == nil {
		l.closers = append(l.closers, done)
	}
	return client, err
}

func (l *line) close() {
	for _, f := range slices.Backward(l.closers) {
		f()
	}
}

// stands waits until so many stand in line, and makes sure who they are.
func (l *line) stands(ctx context.Context, n int) error {
	for end := time.Now().Add(late); ; {
		owners, err := l.rdb.LRange(ctx, protocol.FairQueueKey(l.name), 0, -1).Result()
		if err != nil {
			return err
		}
		switch {
		case len(owners) == n:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d owners should stand in line, but %d do: %v", n, len(owners), owners)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// tell says who stands in line, and checks that it is these.
func (l *line) tell(ctx context.Context, words string, want ...*waiter) error {
	owners, err := l.rdb.LRange(ctx, protocol.FairQueueKey(l.name), 0, -1).Result()
	if err != nil {
		return err
	}
	expected := make([]string, len(want))
	for i, w := range want {
		expected[i] = w.owner.String()
	}
	l.Stage.Point(fmt.Sprintf("%s: %s", words, shortened(owners)))
	if !slices.Equal(owners, expected) {
		return fmt.Errorf("%v should stand in line, but %v do", expected, owners)
	}
	return nil
}

// shortened are owners in a form to compare them by eye.
func shortened(owners []string) string {
	short := make([]string, len(owners))
	for i, owner := range owners {
		short[i] = short8(owner)
	}
	return strings.Join(short, " ")
}

func short8(owner string) string { return owner[:min(8, len(owner))] }

// serve lets those who wait have the lock, and returns who got it in which order.
func (l *line) serve(ctx context.Context, waiting []*waiter) (order []string, err error) {
	if err := l.first.Unlock(); err != nil {
		return nil, err
	}
	type served struct {
		w *waiter
		t taken
	}
	all := make(chan served, len(waiting))
	for _, w := range waiting {
		go func() {
			t := <-w.got
			if t.err == nil {
				_ = pause(ctx, stayed) // its end is ctx's, which Unlock does not mind
				t.err = t.hold.Unlock()
			}
			all <- served{w, t}
		}()
	}
	list := make([]served, len(waiting))
	for i := range list {
		list[i] = <-all
		err = errors.Join(err, list[i].t.err)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b served) int { return a.t.at.Compare(b.t.at) })
	for _, s := range list {
		order = append(order, s.w.owner.String())
	}
	return order, context.Cause(ctx)
}

// inOrder compares the order of arrival with that of service.
func (s *show) inOrder(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("One owner holds the lock, and %d come to wait, each with a client of its own, like %d processes. Then the lock "+
		"goes from one to the next. This is the line as LRANGE answers it, the first 8 characters of each owner:", queueing, queueing))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := s.newLine(ctx, "fair", queueing)
	defer l.close()
	if err != nil {
		return err
	}
	if err := l.tell(ctx, "They came as", l.waiters...); err != nil {
		return err
	}
	order, err := l.serve(ctx, l.waiters)
	if err != nil {
		return err
	}
	s.Stage.Point("They got it as: " + shortened(order))
	return s.judgeOrder(l, order)
}

func (s *show) judgeOrder(l *line, order []string) error {
	for i, w := range l.waiters {
		if order[i] != w.owner.String() {
			return fmt.Errorf("number %d in line was %v, but number %d to get the lock was %s", i+1, w.owner, i+1, order[i])
		}
	}
	s.Stage.Point("That is the order in which they came, over all processes. With a mutex it is so as a rule.")
	s.measuredf("Fairness: %d of %d waiters got the lock in the order in which they came.", len(order), len(l.waiters))
	return nil
}

// outOfLine lets one of three give up.
func (s *show) outOfLine(ctx context.Context) error {
	s.Stage.Say("Who gives up must not keep those behind it waiting. Of three that stand in line, the second gives up:")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := s.newLine(ctx, "patience", 3)
	defer l.close()
	if err != nil {
		return err
	}
	if err := l.tell(ctx, "In line", l.waiters...); err != nil {
		return err
	}
	gone := l.waiters[1]
	gone.giveUp()
	if t := <-gone.got; !errors.Is(t.err, context.Canceled) {
		return errors.Join(errors.New("one gave up, and was not told so"), t.err)
	}
	began := time.Now()
	if err := l.stands(ctx, 2); err != nil {
		return err
	}
	after := time.Since(began)
	rest := []*waiter{l.waiters[0], l.waiters[2]}
	if err := l.tell(ctx, fmt.Sprintf("%s after %s has given up", millis(after), short8(gone.owner.String())), rest...); err != nil {
		return err
	}
	order, err := l.serve(ctx, rest)
	if err != nil {
		return err
	}
	s.Stage.Point("They got it as: " + shortened(order))
	s.measuredf("Giving up: the place in line was gone %s later.", millis(after))
	if order[0] != rest[0].owner.String() {
		return errors.New("they did not get it in the order in which they came")
	}
	return nil
}
