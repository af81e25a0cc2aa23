package tails

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// From the death of a primary until the next one has a lock: one that its holder gives back in that
// moment, and one that was free.

// fewLocks is in how many locks a subject takes part in a failover.
const fewLocks = 2

// through has all subjects wait while the primary dies, again and again. kill kills it; recovered waits until there is
// another one, and starts the dead one again; rest waits until it has joined the others. names are where the locks are.
func through(t *testing.T, measure string, to target, rest, kill, recovered func(), names func(n int) []string) {
	t.Helper()
	type contender struct {
		subject

		holder, waiter session
		held, free     sampler
	}
	var everyone []*contender
	for _, s := range subjects {
		if s.line == nil || s.name == "fair" || s.name == "permits" {
			everyone = append(everyone, &contender{subject: s})
		}
	}
	var server sampler
	for range part(30) {
		rest()
		type lock struct {
			*contender

			names []string
			held  []contenders.Grant
			next  *waiting
		}
		var locks []*lock
		for _, c := range everyone {
			c.holder, c.waiter = open(t, c.subject, to), open(t, c.subject, to)
			l := &lock{contender: c, names: names(fewLocks)}
			if l.held = takeFree(t, c.subject, c.holder, l.names, 0, random(c.subject)); l.held != nil {
				locks = append(locks, l)
			}
		}
		for _, l := range locks {
			l.next = wait(t, l.waiter, l.names)
		}
		time.Sleep(1500 * time.Millisecond)
		kill()
		killed := time.Now()
		var released, granted sync.WaitGroup
		for _, l := range locks {
			for _, g := range l.held {
				released.Go(func() { _ = g.Unlock() }) // it may tell that it could not reach anybody
			}
			granted.Go(func() {
				for _, at := range wait(t, l.waiter, names(fewLocks)).ended() {
					l.free.since(killed, at)
				}
				for _, at := range l.next.ended() {
					l.contender.held.since(killed, at)
				}
			})
		}
		recovered()
		server.add(time.Since(killed))
		granted.Wait()
		released.Wait()
		for _, c := range everyone {
			c.holder.close()
			c.waiter.close()
		}
		if t.Failed() {
			break
		}
	}
	server.done(t, measure, "the servers themselves")
	for _, c := range everyone {
		c.held.done(t, measure+"-held", c.name)
		c.free.done(t, measure+"-free", c.name)
	}
}

// failoverLease is that of holds whose primary dies.
const failoverLease = 10 * time.Second

// linked waits until so many replicas have all that the primary has.
func linked(t *testing.T, primary *redistest.Server, replicas int) {
	t.Helper()
	rdb := direct(t, primary)
	until(t, "replicas that are linked", func() bool {
		info := rdb.Info(background, "replication").Val()
		return strings.Count(info, "state=online") == replicas
	})
}

// sentinelsRest is twice the sentinels' failover-timeout: for so long after a failover they make no
// other one.
const sentinelsRest = 6 * time.Second

func FailoverSentinel(t *testing.T) {
	t.Parallel()
	onlyMeasured(t)
	s := redistest.StartSentinel(t, 2, 3)
	to := at(failoverLease, s.Addrs()...)
	to.Master = s.MasterName()
	var old *redistest.Server
	rest := func() {
		linked(t, s.Primary(t), 2)
		time.Sleep(sentinelsRest)
	}
	through(t, "sentinel", to, rest, func() { old = s.KillPrimary(t) }, func() {
		s.WaitNewPrimary(t, old)
		old.Restart()
	}, fresh)
}

func FailoverCluster(t *testing.T) {
	t.Parallel()
	onlyMeasured(t)
	s := redistest.StartCluster(t, 3, 1)
	to := at(failoverLease, s.Addrs()...)
	to.Cluster = true
	// All locks are in one slot, so that all are on the node that dies.
	names := func(n int) (all []string) {
		for _, name := range fresh(n) {
			all = append(all, "{tails}:"+name)
		}
		return all
	}
	var old *redistest.Server
	rest := func() { linked(t, s.NodeFor(t, "{tails}"), 1) }
	through(t, "cluster", to, rest, func() {
		old = s.NodeFor(t, "{tails}")
		old.Kill()
	}, func() {
		s.WaitNewNodeFor(t, "{tails}", old)
		old.Restart()
	}, names)
}
