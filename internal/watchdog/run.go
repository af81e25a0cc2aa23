package watchdog

import (
	"container/heap"
	"math/bits"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// run is the watchdog's goroutine.
func (d *Watchdog[V, G]) run() {
	defer d.timer.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-d.timer.C:
			d.look()
		}
	}
}

// look deals with every entry that is due, and sets the timer for the next look.
func (d *Watchdog[V, G]) look() {
	due := d.collect()
	for _, e := range due.lost {
		d.config.Lost(e, DeadlinePassed)
	}
	for _, e := range due.longHeld {
		d.config.LongHeld(e)
	}
	for together, members := range due.renew {
		for len(members) > 0 {
			n := d.fits(members)
			d.send(together.group, members[:n])
			members = members[n:]
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookAt, d.tickAt = 0, 0
	d.lookInTime(d.now())
}

// fits is how many of these go into one batch: one at least.
func (d *Watchdog[V, G]) fits(members []asked[V]) int {
	weight := 0
	for i, m := range members {
		if weight += d.config.Weight(m.entry.Value); weight > BatchSize {
			return max(i, 1)
		}
	}
	return len(members)
}

type due[V any, G comparable] struct {
	lost, longHeld []*Entry[V]
	renew          map[together[G]][]asked[V]
}

// together is what the renewals of one batch have in common. The batch waits for its answer for
// as long as the least patient of them, so a short lease does not go with a long one: where the way
// takes longer than a short lease bears, the long one could never be renewed.
type together[G comparable] struct {
	group    G
	patience int // the power of two
}

// asked is an entry, and the time to live that its renewal asks for.
type asked[V any] struct {
	entry *Entry[V]
	ttl   time.Duration
}

// collect takes what is due off the entries: their state says afterwards that
// it has been dealt with.
func (d *Watchdog[V, G]) collect() due[V, G] {
	found := due[V, G]{renew: map[together[G]][]asked[V]{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookForJump()
	at := d.now()
	for len(d.heap) > 0 {
		e := d.heap[0]
		switch {
		case e.deadline <= at:
			d.finish(e, lost)
			found.lost = append(found.lost, e)
		case !e.longHeldAt.IsZero() && e.longHeldAt <= at:
			e.longHeldAt = 0
			heap.Fix(&d.heap, e.index)
			found.longHeld = append(found.longHeld, e)
		case e.renewalDue(at):
			e.inFlight, e.check = true, false
			heap.Fix(&d.heap, e.index)
			of := together[G]{d.config.Group(e.Value), bits.Len64(uint64(d.patience(e)))}
			found.renew[of] = append(found.renew[of], asked[V]{e, e.ttl(at)})
		default:
			return found
		}
	}
	return found
}

// lookForJump marks every entry for a check if the wall clock has jumped ahead since the last call. Either the clock was
// set or the host was suspended, and deadlines account for both; but a jump may also be the only sign that a virtual machine was
// paused. d.mu is held.
func (d *Watchdog[V, G]) lookForJump() {
	lead := d.lead(time.Now())
	if lead-d.looked > jump {
		for _, e := range d.heap {
			e.check = true
		}
		heap.Init(&d.heap)
	}
	d.looked = lead
}

// send renews one batch, in a goroutine of its own.
func (d *Watchdog[V, G]) send(group G, members []asked[V]) {
	batch := make([]Renewal[V], len(members))
	in, first := Budget{Patience: d.config.Timeout}, members[0].entry
	d.mu.Lock()
	for i, m := range members {
		batch[i] = Renewal[V]{Entry: m.entry, TTL: m.ttl}
		in.Patience = min(in.Patience, d.patience(m.entry))
		if m.entry.deadline < first.deadline {
			first = m.entry
		}
	}
	in.Left = first.deadline.Sub(d.now())
	d.mu.Unlock()
	d.wg.Go(func() {
		sent := d.now()
		d.answered(members, sent, d.config.Renew(d.ctx, in, group, batch))
	})
}

// patience is for how long an answer to the entry's renewal is waited for: a quarter of the
// lease leaves time to ask again. d.mu is held.
func (d *Watchdog[V, G]) patience(e *Entry[V]) time.Duration {
	return min(d.config.Timeout, max(e.lease()/4, time.Millisecond))
}

// answered puts the answer to a batch into effect.
func (d *Watchdog[V, G]) answered(members []asked[V], sent mono.Time, answers []Answer) {
	var gone []*Entry[V]
	d.mu.Lock()
	now := d.now()
	for i, m := range members {
		e := m.entry
		e.inFlight = false
		switch {
		case e.state != watched:
			continue
		case answers[i] == Unknown:
			e.renewAt = now.Add(pause(e.lease()))
		case answers[i] == Gone:
			d.finish(e, lost)
			gone = append(gone, e)
			continue
		default:
			if m.ttl > 0 {
				d.raise(e, sent, m.ttl)
			}
			e.plan(sent)
			if e.ttl(now) > m.ttl+e.Lease/10 {
				e.renewAt = now // it needs more than this renewal requested
			}
		}
		heap.Fix(&d.heap, e.index)
	}
	d.lookInTime(d.now())
	d.mu.Unlock()
	for _, e := range gone {
		d.config.Lost(e, NotHeld)
	}
}

// AnsweredLate applies answers that arrived after Renew had returned, to renewals that were sent at sent. A lock that was held then
// has the lease that the renewal requested. If a lock was not held, Redis is asked again, because a later request may have
// changed that.
func (d *Watchdog[V, G]) AnsweredLate(batch []Renewal[V], sent mono.Time, answers []Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, one := range batch {
		e := one.Entry
		switch {
		case e.state != watched:
			continue
		case answers[i] == Held && one.TTL > 0:
			d.raise(e, sent, one.TTL)
		case answers[i] == Gone:
			e.check = true
		}
		heap.Fix(&d.heap, e.index)
	}
	d.lookInTime(d.now())
}

// pause is how long to wait before a failed renewal is repeated. It is longer
// than renewals are gathered ahead of their time, or they would follow each
// other without a pause.
func pause(lease time.Duration) time.Duration {
	return max(5*time.Millisecond, min(lease/10, time.Second))
}
