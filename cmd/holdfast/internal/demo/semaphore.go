package demo

import (
	"context"
	"errors"
	"fmt"
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
	intro: "A semaphore there is a number, how many permits are available, and beside it the permits that are held, each with the time at which its lease ends.",
	scenes: []scene{
		{"Many jobs, so many at once", (*show).permits},
		{"A holder of a permit crashes", (*show).lostPermit},
	},
}

// semaphore sets up a semaphore, and minds what stands in Redis for it.
func (s *show) semaphore(ctx context.Context, name string, n int) (string, error) {
	key := s.prefix + ":" + name
	s.lastingKey(key)
	s.lastingKey(protocol.CallsKey(key))
	s.keys = append(s.keys, protocol.PermitsKey(key), protocol.ReservationKey(key))
	client, done, err := s.client(nil)
	if err != nil {
		return key, err
	}
	defer done()
	first, err := client.NewPermitSemaphore(key).TrySetPermits(ctx, n)
	if err == nil && !first {
		err = errors.New("the semaphore was there already")
	}
	return key, err
}

// permits lets more jobs run than there are permits.
func (s *show) permits(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d jobs, each with a client of its own, like %d processes. The semaphore has %d permits, so at most %d run at once.",
		jobs, jobs, atOnce, atOnce))
	name, err := s.semaphore(ctx, "permits", atOnce)
	if err != nil {
		return err
	}
	a := &arena{length: shared, tally: func(a *arena) string { return fmt.Sprintf("at most %d at once", most(a.soFar())) }}
	for i := range jobs {
		a.actors = append(a.actors, actor{
			name: fmt.Sprintf("job %d", i+1), short: fmt.Sprintf("j%d", i+1),
			lock: func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore(name) },
			stay: between{150, 350}, rest: between{50, 150},
		})
	}
	if err := s.enact(ctx, a); err != nil {
		return err
	}
	found := most(a.spans)
	s.Stage.Point(fmt.Sprintf("%d stays, at most %d at the same time.", len(a.spans), found))
	s.measuredf("Semaphore: %d stays of %d jobs, at most %d at once.", len(a.spans), jobs, found)
	if found > atOnce || found < 2 {
		return fmt.Errorf("%d jobs were at work at once, with %d permits", found, atOnce)
	}
	return s.expectPermits(ctx, "Afterwards", name, atOnce, 0)
}

// expectPermits reads how many permits are available and held, and checks it. Who
// has given up at the end of a scene may take a moment to leave nothing behind.
func (s *show) expectPermits(ctx context.Context, when, name string, available, held int64) error {
	for end := time.Now().Add(late); ; {
		free, err := s.rdb.Get(ctx, name).Int64()
		if err != nil {
			return err
		}
		taken, err := s.rdb.ZCard(ctx, protocol.PermitsKey(name)).Result()
		if err != nil {
			return err
		}
		asExpected := free == available && taken == held
		if !asExpected && time.Now().Before(end) {
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		s.Stage.Point(fmt.Sprintf("%s: GET answers %d available, ZCARD %d held.", when, free, taken))
		if !asExpected {
			return fmt.Errorf("%d permits should be available and %d held", available, held)
		}
		return nil
	}
}

// lostPermit kills a process that holds one of two permits.
func (s *show) lostPermit(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("Of two permits this process holds one, and another process the other, with a lease of %s that it renews. "+
		"A waiter stands by. Then the other process is killed (SIGKILL). A plain counter would have lost its permit for ever.",
		seconds(crashLease)))
	name, err := s.semaphore(ctx, "crash", 2)
	if err != nil {
		return err
	}
	client, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	semaphore := client.NewPermitSemaphore(name)
	ours, err := semaphore.Lock(ctx)
	if err != nil {
		return err
	}
	if err := s.kill(ctx, victim{
		what: "permit", kind: semaphoreKind, name: name,
		lock: func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore(name) },
		left: func(ctx context.Context) (time.Duration, error) { return leaseOfOther(ctx, semaphore, ours) },
		tell: "lease",
	}); err != nil {
		return err
	}
	if err := s.expectPermits(ctx, "Given back by the waiter", name, 1, 1); err != nil {
		return err
	}
	return ours.Unlock()
}

// leaseOfOther is the lease of the permit that is not ours; 0 if there is none.
func leaseOfOther(ctx context.Context, semaphore *holdfast.PermitSemaphore, ours *holdfast.Hold) (time.Duration, error) {
	found, err := semaphore.Inspect(ctx)
	if err != nil {
		return 0, err
	}
	for _, h := range found.Holders {
		if h.Owner != ours.PermitIDs()[0] {
			return h.TTL, nil
		}
	}
	return 0, nil
}
