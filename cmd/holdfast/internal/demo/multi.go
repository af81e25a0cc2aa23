package demo

import (
	"errors"
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
func (s *show) deadlock() {
	s.sayf("To move money from one account to another, both have to be locked. One clerk locks A and then B, another one B "+
		"and then A, and each waits %s at most for its second lock:", seconds(patience))
	x, y := s.key("deadlock:a"), s.key("deadlock:b")
	first, second := s.client(), s.client()
	began := time.Now()
	held := []*holdfast.Hold{must(first.NewMutex(x).Lock(s.ctx)), must(second.NewMutex(y).Lock(s.ctx))}
	var refused [2]error
	var asking sync.WaitGroup
	for i, lock := range []*holdfast.Mutex{first.NewMutex(y), second.NewMutex(x)} {
		asking.Go(func() { _, refused[i] = lock.Lock(s.ctx, holdfast.Wait(patience)) })
	}
	asking.Wait() // until both have asked, so neither gets what the other gives back
	for i, hold := range held {
		promise(errors.Is(refused[i], holdfast.ErrLocked),
			"a clerk got its second lock while the other one held it, or another error: %w", refused[i])
		check(hold.Unlock())
	}
	s.pointf("After %s both have given up: each waited for a lock that the other one held.", seconds(time.Since(began)))
}

// bothAtOnce lets clerks take the same two locks as multi-locks.
func (s *show) bothAtOnce() {
	s.sayf("%d clerks with multi-locks of A and B, half of them in one order and half in the other. "+
		"A multi-lock takes its locks in one order, whatever order they are given in:", clerks)
	x, y := s.key("both:a"), s.key("both:b")
	a := &arena{length: together}
	s.enter(a, clerks, actor{name: "clerk", short: "c", stay: between{50, 120}, rest: between{50, 200}},
		func(c *holdfast.Client, i int) holdfast.Locker {
			if i%2 == 1 {
				return holdfast.NewMultiLock(c.NewMutex(y), c.NewMutex(x))
			}
			return holdfast.NewMultiLock(c.NewMutex(x), c.NewMutex(y))
		})
	s.enact(a)
	stays := make([]int, clerks)
	for _, sp := range a.spans {
		stays[sp.actor]++
	}
	n, found := len(a.spans), clashes(a.spans, everybody)
	s.pointf("%d transfers, %d or more by each clerk, %d overlaps.", n, slices.Min(stays), found)
	s.measuredf("Multi-lock: %d transfers in both orders, %d overlaps.", n, found)
	promise(found == 0, "%d pairs of transfers overlap", found)
	promise(a.changes() > 0, "the locks never went from one clerk to another")
}

// allOrNothing asks for two locks of which one is held.
func (s *show) allOrNothing() {
	s.sayf("Another owner holds B alone. Who wants both gets neither, and is told which one is held:")
	client := s.client()
	x, y := client.NewMutex(s.key("all:a")), client.NewMutex(s.key("all:b"))
	holder := must(y.Lock(s.ctx))
	_, err := holdfast.NewMultiLock(x, y).TryLock(s.ctx)
	var locked *holdfast.LockedError
	promise(errors.As(err, &locked) && locked.Name == y.Name(),
		"the multi-lock should have been refused because of B, but the error is %w", err)
	s.pointf("Refused: %q is held by %s.", locked.Name, locked.Holder)
	s.expectHash(x.Name(), "A", nil)
	check(holder.Unlock())
	both := must(holdfast.NewMultiLock(y, x).TryLock(s.ctx))
	s.pointf("B is given back, and both are to be had:")
	s.expectHash(x.Name(), "A", counts(both.Owner(), "1"))
	s.expectHash(y.Name(), "B", counts(both.Owner(), "1"))
	s.measuredf("All or nothing: with B held, A was not taken; then both were, by one owner.")
	check(both.Unlock())
}
