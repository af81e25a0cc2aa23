package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

const (
	// pings and pairs are how many there are at most, within measureFor each.
	pings      = 300
	pairs      = 50
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
func clock(_ context.Context, e *exam) (found []Finding) {
	var first, last *node // by their clocks
	apart := time.Duration(0)
	for _, n := range e.reached() {
		if n.noTime != "" {
			found = append(found, unknown(n.noTime).at(n))
			continue
		}
		if first == nil || n.offset < first.offset {
			first = n
		}
		if last == nil || n.offset > last.offset {
			last = n
		}
		if off := n.offset.Abs() - n.uncertain; off > clocksApart {
			f := warn("Have NTP (chrony, systemd-timesyncd) set the clocks of both.", "its clock is %v %s this machine's: locks work, but the first call takes longer and logs do not compare",
				n.offset.Abs().Round(time.Millisecond), direction(n.offset))
			found = append(found, f.at(n))
		}
	}
	if first != nil && last != nil {
		apart = last.offset - first.offset - first.uncertain - last.uncertain
	}
	const do = "Have NTP set the clocks of all servers: a replica counts leases by its own clock."
	switch {
	case apart > clocksFar:
		found = append(found, fail(do, "the clocks of %s and %s are %v apart: after a failover, locks end early or late by that", first.addr, last.addr, apart.Round(time.Millisecond)))
	case apart > clocksApart:
		found = append(found, warn(do, "the clocks of %s and %s are %v apart: after a failover, locks end early or late by that", first.addr, last.addr, apart.Round(time.Millisecond)))
	case len(found) == 0 && first != nil:
		found = append(found, pass("%v from this machine's, at most", max(first.offset.Abs()+first.uncertain, last.offset.Abs()+last.uncertain).Round(time.Millisecond)))
	}
	return found
}

func direction(offset time.Duration) string {
	if offset > 0 {
		return "ahead of"
	}
	return "behind"
}

// latency measures PING on each node that takes writes.
func latency(ctx context.Context, e *exam) (found []Finding) {
	for _, n := range e.primaries() {
		times, err := measure(ctx, pings, func() error {
			if err := n.client.Ping(ctx).Err(); !answers(err) {
				return err
			}
			return nil // a refusal takes as long
		})
		f := judgeLatency(times, err)
		found = append(found, f.at(n))
	}
	return found
}

func judgeLatency(times []time.Duration, err error) Finding {
	const do = "Look at the network, at the load of the server and of this machine, and at what blocks it."
	if err != nil {
		return fail(do, "after %d answers to PING, none came: %v", len(times), err)
	}
	if len(times) == 0 {
		return late()
	}
	p99, longest := percentile(times, 99), times[len(times)-1]
	all := percentiles(times)
	switch {
	case longest > attempt:
		return fail(do, "%s: calls that take %v are sent again, and renewals can come too late", all, attempt)
	case p99 > slowPing:
		return warn(do, "%s: every lock and unlock takes as long", all)
	}
	return pass("%s", all)
}

// measure calls f for a while. The times are sorted. That there was no more time is no error.
func measure(ctx context.Context, most int, f func() error) (times []time.Duration, err error) {
	for began := time.Now(); err == nil && len(times) < most && time.Since(began) < measureFor && ctx.Err() == nil; {
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
	return strings.Join([]string{
		"p50 " + brief(percentile(times, 50)), "p99 " + brief(percentile(times, 99)), "max " + brief(times[len(times)-1]),
	}, ", ")
}

// brief writes a time with a few digits.
func brief(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// lockLatency measures pairs of the first kind that works.
func lockLatency(ctx context.Context, e *exam) (found []Finding) {
	for _, n := range e.primaries() {
		if len(n.works) == 0 {
			continue // why has been said
		}
		name, ok := e.scratch(ctx, n)
		if !ok {
			continue
		}
		k := n.works[0]
		t := trial{client: e.locks, redis: e.redis, name: name}
		times, err := measure(ctx, pairs, func() error { return k.try(ctx, t) })
		f := judgePairs(k, times, errors.Join(err, e.remove(ctx, k, name)))
		found = append(found, f.at(n))
	}
	return found
}

func judgePairs(k kind, times []time.Duration, err error) Finding {
	switch {
	case err != nil:
		return warn("Try again, and look at the network.", "%s: after %d pairs one failed: %v", k.id(), len(times), explained(err))
	case len(times) == 0:
		return late()
	case percentile(times, 50) > slowPair:
		return warn("Look at latency, blocking and the load of the server.", "%s: a pair takes %s", k.id(), percentiles(times))
	}
	return pass("%s: %s", k.id(), percentiles(times))
}
