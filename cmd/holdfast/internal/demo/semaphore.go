package demo

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	jobs, atOnce = 7, 3
	shared       = 3 * time.Second
)

var semaphoreShow = Show{
	Name:  "permits",
	Also:  []string{"semaphore"},
	About: "at most so many at once, also after a process has crashed",
	intro: "A semaphore there is a number, how many permits are available, and beside it the permits that are held, each " +
		"with the time at which its lease ends.",
	scenes: []scene{
		{"Many jobs, so many at once", (*show).permits},
		{"A holder of a permit crashes", (*show).lostPermit},
	},
}

// semaphore sets up a semaphore, and minds what stands in Redis for it.
func (s *show) semaphore(name string, n int) string {
	key := s.prefix + ":" + name
	s.lasting = append(s.lasting, key, protocol.CallsKey(key))
	s.keys = append(s.keys, protocol.PermitsKey(key))
	first := must(s.client().NewPermitSemaphore(key).TrySetPermits(s.ctx, n))
	promise(first, "the semaphore was there already")
	return key
}

// permits lets more jobs run than there are permits.
func (s *show) permits() {
	s.sayf("%d jobs, each with a client of its own, like %d processes. The semaphore has %d permits, so at most %d run at once.",
		jobs, jobs, atOnce, atOnce)
	name := s.semaphore("permits", atOnce)
	a := &arena{length: shared, together: true}
	s.enter(a, jobs, actor{name: "job", short: "j", stay: between{150, 350}, rest: between{50, 150}},
		func(c *holdfast.Client, _ int) holdfast.Locker { return c.NewPermitSemaphore(name) })
	s.enact(a)
	found := most(a.spans)
	s.pointf("%d stays, at most %d at the same time.", len(a.spans), found)
	s.measuredf("Semaphore: %d stays of %d jobs, at most %d at once.", len(a.spans), jobs, found)
	promise(found >= 2 && found <= atOnce, "%d jobs were at work at once, with %d permits", found, atOnce)
	s.expectPermits("Afterwards", name, atOnce, 0)
}

// expectPermits reads how many permits are available and held, and checks it. Who
// has given up at the end of a scene may take a moment to leave nothing behind.
func (s *show) expectPermits(when, name string, available, held int64) {
	var free, taken int64
	kept := s.eventually(func() bool {
		free = must(s.rdb.Get(s.ctx, name).Int64())
		taken = must(s.rdb.ZCard(s.ctx, protocol.PermitsKey(name)).Result())
		return free == available && taken == held
	})
	s.pointf("%s: GET answers %d available, ZCARD %d held.", when, free, taken)
	promise(kept, "%d permits should be available and %d held", available, held)
}

// lostPermit kills a process that holds one of two permits.
func (s *show) lostPermit() {
	s.sayf("Of two permits this process holds one, and another process the other, with a lease of %s that it renews. "+
		"A waiter stands by. Then the other process is killed (SIGKILL). A plain counter would have lost its permit for ever.",
		seconds(crashLease))
	name := s.semaphore("crash", 2)
	semaphore := s.client().NewPermitSemaphore(name)
	ours := must(semaphore.Lock(s.ctx))
	s.kill(victim{
		what: "permit", kind: semaphoreKind, name: name,
		lock: func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore(name) },
		left: func() time.Duration { return s.leaseOfOther(semaphore, ours) },
	})
	s.expectPermits("Given back by the waiter", name, 1, 1)
	check(ours.Unlock())
}

// leaseOfOther is the lease of the permit that is not ours; 0 if there is none.
func (s *show) leaseOfOther(semaphore *holdfast.PermitSemaphore, ours *holdfast.Hold) time.Duration {
	for _, h := range must(semaphore.Inspect(s.ctx)).Holders {
		if h.Owner != ours.PermitIDs()[0] {
			return h.TTL
		}
	}
	return 0
}
