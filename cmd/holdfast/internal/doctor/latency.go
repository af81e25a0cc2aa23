package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// pings and pairsTried are how many there are at most, within measureFor each.
	pings      = 300
	pairsTried = 50
	measureFor = time.Second
	// slowPing is felt, and attempt is for how long a call waits by default before it is sent again.
	slowPing = 100 * time.Millisecond
	attempt  = 2 * time.Second
	slowPair = 250 * time.Millisecond
	// clocksApart is worth saying; clocksFar is a third of a lease.
	clocksApart = time.Second
	clocksFar   = lease / 3
)

// clock compares the clocks: of the nodes, since the time at which a key ends is replicated; and
// with this machine's.
func clock(_ context.Context, e *exam) (found findings) {
	var known []*node
	for _, n := range e.reached() {
		if n.noTime != "" {
			found = append(found, unknown(n.noTime).at(n.addr)...)
			continue
		}
		known = append(known, n)
		if off := n.offset.Abs(); off-n.uncertain > clocksApart {
			found = append(found, warn("Have NTP (chrony, systemd-timesyncd) set the clocks of both.",
				"its clock is %v %s this machine's: locks work, but the first call takes longer and logs do not compare",
				off.Round(time.Millisecond), direction(n.offset)).at(n.addr)...)
		}
	}
	if len(known) == 0 {
		return found
	}
	byOffset := func(a, b *node) int { return cmp.Compare(a.offset, b.offset) }
	first, last := slices.MinFunc(known, byOffset), slices.MaxFunc(known, byOffset)
	apart := (last.offset - first.offset - first.uncertain - last.uncertain).Round(time.Millisecond)
	const (
		do   = "Have NTP set the clocks of all servers: a replica counts leases by its own clock."
		says = "the clocks of %s and %s are %v apart: after a failover, locks end early or late by that"
	)
	switch {
	case apart > clocksFar:
		return append(found, fail(do, says, first.addr, last.addr, apart)...)
	case apart > clocksApart:
		return append(found, warn(do, says, first.addr, last.addr, apart)...)
	case len(found) == 0:
		most := max(first.offset.Abs()+first.uncertain, last.offset.Abs()+last.uncertain)
		return pass("%v from this machine's, at most", most.Round(time.Millisecond))
	}
	return found
}

func direction(offset time.Duration) string {
	if offset > 0 {
		return "ahead of"
	}
	return "behind"
}

// latency measures PING.
func latency(ctx context.Context, _ *exam, n *node) findings {
	return judgeLatency(measure(ctx, pings, func() error {
		if err := n.client.Ping(ctx).Err(); !answers(err) {
			return err
		}
		return nil // a refusal takes as long
	}))
}

func judgeLatency(times []time.Duration, err error) findings {
	const do = "Look at the network, at the load of the server and of this machine, and at what blocks it."
	switch {
	case err != nil:
		return fail(do, "after %d answers to PING, none came: %v", len(times), err)
	case len(times) == 0:
		return late()
	case times[len(times)-1] > attempt:
		return fail(do, "%s: calls that take %v are sent again, and renewals can come too late", percentiles(times), attempt)
	case percentile(times, 99) > slowPing:
		return warn(do, "%s: every lock and unlock takes as long", percentiles(times))
	}
	return pass("%s", percentiles(times))
}

// measure calls f for a while. The times are sorted. That there was no more time is no error.
func measure(ctx context.Context, most int, f func() error) (times []time.Duration, err error) {
	began := time.Now()
	for err == nil && len(times) < most && time.Since(began) < measureFor && ctx.Err() == nil {
		sent := time.Now()
		if err = f(); err == nil {
			times = append(times, time.Since(sent))
		}
	}
	slices.Sort(times)
	if ctx.Err() != nil {
		err = nil
	}
	return times, err
}

// percentile is of sorted times, at least one.
func percentile(times []time.Duration, p int) time.Duration { return times[(len(times)-1)*p/100] }

func percentiles(times []time.Duration) string {
	brief := func(p int) time.Duration { return percentile(times, p).Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v", brief(50), brief(99), brief(100))
}

// lockLatency measures pairs of the first kind that works. If none does, that has been said.
func lockLatency(ctx context.Context, e *exam, n *node) findings {
	name, ok := e.scratch(ctx, n)
	if !ok || len(n.works) == 0 {
		return nil
	}
	k := n.works[0]
	t := trial{client: e.locks, redis: e.redis, name: name}
	times, err := measure(ctx, pairsTried, func() error { return t.try(ctx, k) })
	switch err = errors.Join(err, e.remove(ctx, k, name)); {
	case err != nil:
		return warn("Try again, and look at the network.",
			"%s: after %d pairs one failed: %v", k.ID(), len(times), explained(err))
	case len(times) == 0:
		return late()
	case percentile(times, 50) > slowPair:
		return warn("Look at latency, blocking and the load of the server.", "%s: a pair takes %s", k.ID(), percentiles(times))
	}
	return pass("%s: %s", k.ID(), percentiles(times))
}
