package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

const (
	redServers = 3
	redLease   = 3 * time.Second
	// redTimeout is how long a server is waited for.
	redTimeout = 2500 * time.Millisecond
	// outlived is for how long the lock is watched with a server less.
	outlived = redLease + 500*time.Millisecond
)

var redLockShow = Show{
	Name:  "redlock",
	About: "a lock on three servers of its own, of which one dies meanwhile",
	Servers: "three Redis servers inside this process that know nothing of each other, so that one of them can be " +
		"stopped",
	intro: "A RedLock is an ordinary lock on each of them, and is held while more than half of them hold it.",
	scenes: []scene{
		{"One server dies, and the lock holds", (*show).oneDies},
	},
}

// quorum is the servers of a RedLock.
type quorum struct {
	*show
	name    string
	servers []*Server
	rdbs    []redis.UniversalClient // to look at them
}

func (s *show) newQuorum() *quorum {
	q := &quorum{show: s, name: s.prefix + ":quorum"}
	for range redServers {
		server := must(StartServer())
		s.atEnd(server.Close)
		target := must(server.Target())
		rdb := target.Client(target.Dial)
		s.atEnd(func() { _ = rdb.Close() })
		q.servers, q.rdbs = append(q.servers, server), append(q.rdbs, rdb)
	}
	return q
}

// process is a RedLock with a client for each server, as a process of its own
// would have it.
func (q *quorum) process() *holdfast.MultiLock {
	lockers := make([]holdfast.Locker, len(q.servers))
	for i, server := range q.servers {
		target := must(server.Target())
		client := q.clientOf(target, target.Dial, holdfast.WithLease(redLease), holdfast.WithTimeout(redTimeout))
		lockers[i] = client.NewMutex(q.name)
	}
	return holdfast.NewRedLock(lockers...)
}

// holders says what each server has, and on how many of them it is the hold. Each
// server's part of it has an owner of its own.
func (q *quorum) holders(hold *holdfast.Hold) (held int, words string) {
	isPart := func(owner string) bool {
		return slices.ContainsFunc(hold.Parts(), func(part *holdfast.Hold) bool { return part.Owner().String() == owner })
	}
	parts := make([]string, len(q.rdbs))
	for i, rdb := range q.rdbs {
		found, err := rdb.HKeys(q.ctx, q.name).Result()
		says := "free"
		switch {
		case err != nil:
			says = "no answer"
		case len(found) > 0:
			says = shortened(found...)
		}
		parts[i] = fmt.Sprintf("%d: %s", i+1, says)
		if len(found) == 1 && isPart(found[0]) {
			held++
		}
	}
	return held, strings.Join(parts, ", ")
}

// expect says who holds the lock on each server, and checks on how many it is
// this hold. The last server joins a moment after the quorum.
func (q *quorum) expect(hold *holdfast.Hold, want int, words string) {
	var held int
	var found string
	q.eventually(func() bool {
		held, found = q.holders(hold)
		return held == want
	})
	q.pointf("%s. Server %s", words, found)
	promise(held == want, "%d servers should have the lock, but %d do", want, held)
}

// oneDies stops a server while the lock is held, and then another one.
func (s *show) oneDies() {
	s.sayf("Two processes want a lock, with a lease of %s. This is who holds it on each server, the first 8 characters "+
		"of the owner in the hash there; a process has a client, and so an owner, for each server:", seconds(redLease))
	q := s.newQuorum()
	first, second := q.process(), q.process()
	hold := must(first.Lock(s.ctx))
	q.expect(hold, redServers, "The first process has the lock")
	q.servers[0].Close()
	q.outlive(hold, second)
	q.servers[1].Close()
	q.noQuorum(hold)
}

// outlive watches the hold for longer than its lease, with a server less.
func (q *quorum) outlive(hold *holdfast.Hold, other *holdfast.MultiLock) {
	began := time.Now()
	until(q.show, time.After(outlived), func() {
		held, found := q.holders(hold)
		q.livef("%s after server 1 was stopped  %s", seconds(time.Since(began)), found)
		promise(hold.Context().Err() == nil && held >= redServers-1, "the lock was lost with one server of three: %v",
			context.Cause(hold.Context()))
	})
	q.Stage.keep()
	_, err := other.TryLock(q.ctx)
	promise(errors.Is(err, holdfast.ErrLocked), "the second process should have been refused, but the error is %w", err)
	lasted := seconds(time.Since(began))
	q.pointf("Held for %s without server 1, longer than the lease. The second process tries, and is refused.", lasted)
	q.measuredf("RedLock: held for %s after one server of %d was stopped.", lasted, redServers)
}

// noQuorum waits until the holder is told that one server of three is too few.
func (q *quorum) noQuorum(hold *holdfast.Hold) {
	at := time.Now()
	q.expectLost(hold, redLease+late)
	told := time.Since(at)
	q.pointf("Server 2 is stopped, too. One of three is no quorum: the holder's context ended with ErrLost %s later; the "+
		"lease is %s.", seconds(told), seconds(redLease))
	q.measuredf("No quorum: the holder knew %s after a second server was stopped.", seconds(told))
	// Timers of a busy machine are late.
	promise(told <= redLease+late/2, "the holder was told only after %v, and the lease is %v", told, redLease)
	err := hold.Unlock()
	promise(errors.Is(err, holdfast.ErrLost), "the hold should have been lost, but the error is %w", err)
	q.expect(hold, 0, "It unlocks what is left")
}
