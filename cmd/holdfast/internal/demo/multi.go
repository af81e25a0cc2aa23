package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	clerks   = 4
	together = 2500 * time.Millisecond
	// patience is how long one waits for a second lock.
	patience = time.Second
)

var multiShow = Show{
	Name:  "multi",
	About: "several locks, all or nothing, in whatever order they are wanted",
	intro: "A multi-lock is nothing of its own there: it is the locks that it is made of.",
	scenes: []scene{
		{"One lock after the other: a deadlock", (*show).deadlock},
		{"Both at once: no deadlock", (*show).bothAtOnce},
		{"All or nothing", (*show).allOrNothing},
	},
}

// deadlock lets two owners take two locks in opposite orders.
func (s *show) deadlock(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("To move money from one account to another, both have to be locked. One clerk locks A and then B, another one B and then A, "+
		"and each waits %s at most for its second lock:", seconds(patience)))
	names := []string{s.key("deadlock:a"), s.key("deadlock:b")}
	pair := &pair{}
	pair.first.Add(2)
	pair.second.Add(2)
	for range names {
		client, done, err := s.client(nil)
		if err != nil {
			return err
		}
		defer done()
		pair.clients = append(pair.clients, client)
	}
	second := make(chan error, 2)
	began := time.Now()
	go func() { second <- pair.oneByOne(ctx, pair.clients[0], names[0], names[1]) }()
	go func() { second <- pair.oneByOne(ctx, pair.clients[1], names[1], names[0]) }()
	failures := []error{<-second, <-second}
	for _, err := range failures {
		if !errors.Is(err, holdfast.ErrLocked) {
			return errors.Join(errors.New("a clerk got its second lock while the other one held it"), err)
		}
	}
	s.Stage.Point(fmt.Sprintf("After %s both have given up: each waited for a lock that the other one held.", seconds(time.Since(began))))
	return nil
}

// pair is two clerks who take locks one after the other.
type pair struct {
	clients       []*holdfast.Client
	first, second sync.WaitGroup // until both have their first lock; until both have asked for the second
}

// oneByOne takes two locks. It returns the error of the second.
func (p *pair) oneByOne(ctx context.Context, client *holdfast.Client, one, other string) error {
	hold, err := client.NewMutex(one).Lock(ctx)
	p.first.Done()
	if err != nil {
		p.second.Done()
		return err
	}
	p.first.Wait()
	inner, refused := client.NewMutex(other).Lock(ctx, holdfast.Wait(patience))
	p.second.Done()
	p.second.Wait()
	if refused == nil {
		err = inner.Unlock()
	}
	if err := errors.Join(err, hold.Unlock()); err != nil {
		return err
	}
	return refused
}

// bothAtOnce lets clerks take the same two locks as multi-locks.
func (s *show) bothAtOnce(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d clerks with multi-locks of A and B, half of them in one order and half in the other. "+
		"A multi-lock takes its locks in one order, whatever order they are given in:", clerks))
	x, y := s.key("both:a"), s.key("both:b")
	a := &arena{length: together, tally: func(a *arena) string { return fmt.Sprintf("%2d hand-overs", a.handOvers()) }}
	for i := range clerks {
		names := []string{x, y}
		if i%2 == 1 {
			names = []string{y, x}
		}
		a.actors = append(a.actors, actor{
			name: fmt.Sprintf("clerk %d", i+1), short: fmt.Sprintf("c%d", i+1),
			lock: func(c *holdfast.Client) holdfast.Locker {
				return holdfast.NewMultiLock(c.NewMutex(names[0]), c.NewMutex(names[1]))
			},
			stay: between{50, 120}, rest: between{50, 200},
		})
	}
	if err := s.enact(ctx, a); err != nil {
		return err
	}
	n, found := len(a.spans), overlaps(a.spans)
	s.Stage.Point(fmt.Sprintf("%d transfers, %d or more by each clerk, %d overlaps.", n, a.fewest(), found))
	s.measuredf("Multi-lock: %d transfers in both orders, %d overlaps.", n, found)
	switch {
	case found > 0:
		return fmt.Errorf("%d transfers began before another had ended", found)
	case a.handOvers() == 0:
		return errors.New("the locks never went from one clerk to another")
	}
	return nil
}

// fewest is how many stays the one has had who had the fewest.
func (a *arena) fewest() int {
	stays := make([]int, len(a.actors))
	for _, sp := range a.spans {
		stays[sp.actor]++
	}
	return slices.Min(stays)
}

// allOrNothing asks for two locks of which one is held.
func (s *show) allOrNothing(ctx context.Context) error {
	s.Stage.Say("Another owner holds B alone. Who wants both gets neither, and is told which one is held:")
	client, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	x, y := client.NewMutex(s.key("all:a")), client.NewMutex(s.key("all:b"))
	holder, err := y.Lock(ctx)
	if err != nil {
		return err
	}
	var locked *holdfast.LockedError
	if _, err := holdfast.NewMultiLock(x, y).TryLock(ctx); !errors.As(err, &locked) || locked.Name != y.Name() {
		return fmt.Errorf("the multi-lock should have been refused because of B, but the error is %w", err)
	}
	s.Stage.Point(fmt.Sprintf("Refused: %q is held by %s.", locked.Name, locked.Holder))
	if err := s.expectCount(ctx, x.Name(), "A", holder.Owner(), 0); err != nil {
		return err
	}
	if err := holder.Unlock(); err != nil {
		return err
	}
	both, err := holdfast.NewMultiLock(y, x).TryLock(ctx)
	if err != nil {
		return err
	}
	s.Stage.Point("B is given back, and both are to be had:")
	if err := s.expectCount(ctx, x.Name(), "A", both.Owner(), 1); err != nil {
		return err
	}
	if err := s.expectCount(ctx, y.Name(), "B", both.Owner(), 1); err != nil {
		return err
	}
	s.measuredf("All or nothing: with B held, A was not taken; then both were, by one owner.")
	return both.Unlock()
}
