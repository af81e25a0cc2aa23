package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
)

// held is the mode --held.
func (j *job) held(ctx context.Context) (err error) {
	some := j.chosen(renewing())
	if len(some) == 0 {
		return errNothing
	}
	m := newMeter(j.addr)
	defer func() { err = errors.Join(err, m.close()) }()
	id := "holdfast-bench:" + rand.Text()[:8]
	s := j.heldSetup()
	holding := heldRun{setup: s, most: j.holds, window: s.lease, limit: 3 * j.timeout, id: id, meter: m, progress: j.progress}
	waiting := waitRun{setup: s, most: j.waiters, limit: 3 * j.timeout, id: id, progress: j.progress}
	var holds []heldRecord
	var waits []waitRecord
	for _, c := range some {
		more, err := holding.contender(ctx, c)
		if err := j.bear(c, err); err != nil {
			return err
		}
		holds = append(holds, more...)
	}
	for _, c := range some {
		more, err := waiting.contender(ctx, c)
		if err := j.bear(c, err); err != nil {
			return err
		}
		waits = append(waits, more...)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := errors.Join(writeAll(j.records, holds), writeAll(j.records, waits)); err != nil {
		return err
	}
	return j.writeHeld(s, holds, waits)
}

// bear says why a peer has not gone on, and returns the error of one of ours.
func (j *job) bear(c contender, failed error) error {
	if failed == nil || c.ours {
		return failed
	}
	_, err := fmt.Fprintf(j.progress, "%s has not gone on: %v\n", c.full(), failed)
	return err
}

// heldSetup is that of all others, but in a smoke run the lease is short, since it is
// measured for as long as that.
func (j *job) heldSetup() setup {
	s := j.setup()
	if j.shortLease {
		s.lease = quickLease
	}
	return s
}

// renewing are the contenders that renew what they hold, with no more than a call
// that acquires.
func renewing() []contender {
	return []contender{holdfastOnGoRedis(), holdfastOnRueidis(), rueidislockOnRueidis()}
}

func writeAll[T any](to records, all []T) error {
	for _, record := range all {
		if err := to.write(record); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) writeHeld(s setup, holds []heldRecord, waits []waitRecord) error {
	_, err := fmt.Fprintf(j.stdout, `%s

%s
%s

%s`,
		wrap(fmt.Sprintf("Locks that are held with a lease of %v, and renewed. Bytes and goroutines are of one hold, beyond its name and a "+
			"variable that it is kept in: live objects on the heap, and stacks of goroutines. Shares are of one core, of all holds together, over "+
			"one lease: of this process, which does nothing else, and of the server.", s.lease), ""),
		heldTable(holds),
		wrap(fmt.Sprintf("Goroutines that wait in Lock, %d for each lock, while another client holds them all. Bytes and goroutines are of one waiter, beyond "+
			"what it had before it called: objects on the heap, and by how much the stacks grow, the caller's own included.", waitersALock), ""),
		waitTable(waits))
	return err
}

func heldTable(holds []heldRecord) *table {
	t := &table{}
	t.add("held", "holds", "heap bytes", "stack bytes", "goroutines", "core", "core of Redis", "lost")
	for _, h := range holds {
		own, server := none, none
		if h.Window > 0 {
			own, server = percent(h.CPU), percent(h.RedisCPU)
		}
		t.add(h.Contender+"/"+h.Client, grouped(h.Holds), whole(h.Heap), whole(h.Stacks), hundredths(h.Goroutines), own, server, grouped(h.Lost))
	}
	return t
}

func waitTable(waits []waitRecord) *table {
	t := &table{}
	t.add("waiting", "waiters", "locks", "heap bytes", "stack bytes", "goroutines", "returned early")
	for _, w := range waits {
		t.add(w.Contender+"/"+w.Client, grouped(w.Waiters), grouped(w.Locks), whole(w.Heap), whole(w.Stacks), hundredths(w.Goroutines), grouped(w.Returned))
	}
	return t
}

// percent writes a share of a core.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }
