package watchdog

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

const (
	// BatchSize is how many entries are renewed in one call, as in Redisson.
	BatchSize = 100
	// tick is how often the watchdog looks for suspensions and jumps of the wall clock, and at most how far
	// ahead renewals are gathered into one batch.
	tick = 50 * time.Millisecond
	// shortHold is the age at which a hold that was granted less than its lease requests the rest. Most holds under contention
	// end before that.
	shortHold = 10 * time.Millisecond
	// jump is the smallest lead gained by the wall clock between two looks that
	// makes the watchdog ask Redis. A clock that is being slewed gains less.
	jump = 10 * time.Millisecond
)

// Reason says why an entry was lost.
type Reason int

const (
	// DeadlinePassed says that its deadline has passed: it was not renewed in time, or not to be renewed.
	DeadlinePassed Reason = iota + 1
	// NotHeld says that the server said that the owner does not hold the lock.
	NotHeld
)

// Answer is what is known of one renewal of a batch.
type Answer int

const (
	// Unknown says that no answer has come, or none that says anything.
	Unknown Answer = iota
	// Held says that the owner holds the lock, for as long as was asked for.
	Held
	// Gone says that the owner does not hold it.
	Gone
)

// Renewal is one entry's part of a batch.
type Renewal[V any] struct {
	// Entry is what is renewed. Only its Value may be read.
	Entry *Entry[V]
	// TTL is the time to live to ask for; 0 asks only whether the lock is held.
	TTL time.Duration
}

// Budget bounds the time of one batch of renewals.
type Budget struct {
	// Patience is how long Renew waits for the reply.
	Patience time.Duration
	// Left is the time until the first entry of the batch is lost. A renewal that took effect later
	// would keep a lock without a holder.
	Left time.Duration
}

// Config is what a [Watchdog] works with. All fields are required.
type Config[V any, G comparable] struct {
	// Group is the group of a value: those of one group may be renewed in one call.
	Group func(value V) G
	// Weight is how many of the [BatchSize] places of a batch a value takes; one that takes more goes alone.
	Weight func(value V) int
	// Renew sends one batch of one group, and returns what is known of each. It returns
	// when ctx ends, or without an answer after in.Patience. It may pass a later answer
	// to [Watchdog.AnsweredLate].
	Renew func(ctx context.Context, in Budget, group G, batch []Renewal[V]) []Answer
	// Lost is told once for each entry that is lost.
	Lost func(e *Entry[V], reason Reason)
	// LongHeld is told once for each entry that has been watched for LongHeldAfter.
	LongHeld func(e *Entry[V])
	// LongHeldAfter is when an entry counts as a long hold.
	LongHeldAfter time.Duration
	// Timeout is how long an answer to a renewal is waited for, at most.
	Timeout time.Duration
	// Margin is subtracted from every deadline.
	Margin time.Duration
}

// Watchdog watches entries with values of type V, in groups of type G. Use [New].
type Watchdog[V any, G comparable] struct {
	config Config[V, G]
	// What the host's clocks say when one has just shown now: the moment and for how long the host was suspended, and by how much
	// the wall clock is ahead. Tests replace them.
	clock func(now time.Time) (at mono.Time, asleep time.Duration)
	lead  func(now time.Time) time.Duration

	mu      sync.Mutex
	heap    entries[V]
	stopped bool
	looked  time.Duration // the wall clock's lead at the last look
	timer   *time.Timer   // wakes the goroutine; nil: it has not started
	lookAt  mono.Time     // when the timer fires; zero: there is nothing to look at
	tickAt  mono.Time     // when it fires at the latest; zero as lookAt

	ctx  context.Context // ends with Stop
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// New returns a watchdog without entries and without a goroutine.
func New[V any, G comparable](config Config[V, G]) *Watchdog[V, G] {
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // Stop calls it
	return &Watchdog[V, G]{config: config, clock: mono.Read, lead: mono.WallLead, ctx: ctx, stop: stop}
}

// now returns this moment.
func (d *Watchdog[V, G]) now() mono.Time {
	now, _ := d.clock(time.Now())
	return now
}

// Trust is the deadline that follows from an acknowledged call that was sent at sent, and gave the lock
// a time to live of ttl. Redis' clock may run 1 % faster than ours and expires keys by the millisecond.
func (d *Watchdog[V, G]) Trust(sent mono.Time, ttl time.Duration) mono.Time {
	return sent.Add(ttl - ttl/100 - 2*time.Millisecond - d.config.Margin)
}

// Watch begins to watch an entry whose hold was acknowledged: by a call that was
// sent at sent and asked for ttl. If renewing is set it is renewed: within shortHold, if ttl is less than the entry's lease.
func (d *Watchdog[V, G]) Watch(e *Entry[V], sent mono.Time, ttl time.Duration, renewing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, asleep := d.clock(time.Now())
	e.state, e.renewing = watched, renewing
	e.deadline, e.asleep = d.reach(e, sent, ttl), asleep
	e.longHeldAt = now.Add(d.config.LongHeldAfter)
	e.plan(sent)
	if renewing && ttl < e.Lease {
		e.renewAt, e.short = min(e.renewAt, sent.Add(ttl/3), now.Add(shortHold)), ttl
	}
	heap.Push(&d.heap, e)
	if d.timer == nil && !d.stopped {
		d.timer = time.NewTimer(tick)
		d.wg.Go(d.run)
	}
	d.lookInTime(now)
}

// Remove ends the watch, and reports whether the entry could be trusted until
// now. Lost is not called for it any more, also if nobody has had the time yet to
// look at a deadline that has passed.
func (d *Watchdog[V, G]) Remove(e *Entry[V]) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state != watched {
		return false
	}
	d.finish(e, removed)
	now, _ := d.clock(time.Now())
	if e.short > 0 {
		d.lookNoSooner(now)
	}
	return now < e.deadline
}

// Acknowledge moves the deadline after a call other than the watchdog's own, which was
// sent at sent and asked for ttl.
func (d *Watchdog[V, G]) Acknowledge(e *Entry[V], sent mono.Time, ttl time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state == watched {
		d.raise(e, sent, ttl)
		heap.Fix(&d.heap, e.index)
	}
}

// raise moves the deadline of a watched entry after an acknowledgement, if that
// reaches further. d.mu is held.
func (d *Watchdog[V, G]) raise(e *Entry[V], sent mono.Time, ttl time.Duration) {
	e.short = 0
	if deadline := d.reach(e, sent, ttl); deadline > e.deadline {
		_, asleep := d.clock(time.Now())
		e.deadline, e.asleep = deadline, asleep
	}
}

// reach is the deadline that follows from an acknowledged call, at most until where renewals may reach.
func (d *Watchdog[V, G]) reach(e *Entry[V], sent mono.Time, ttl time.Duration) mono.Time {
	deadline := d.Trust(sent, ttl)
	if e.Until.IsZero() {
		return deadline
	}
	return min(deadline, e.Until)
}

// SetUntil says anew until when renewals may reach, as the server has said; zero: as far as they like. A
// deadline that is later falls to that.
func (d *Watchdog[V, G]) SetUntil(e *Entry[V], until mono.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state != watched || e.Until == until {
		return
	}
	later := until.IsZero() || !e.Until.IsZero() && e.Until < until
	e.Until, e.untilMoves = until, true
	if !until.IsZero() && until < e.deadline {
		e.deadline = until
	}
	if e.renewing && later && !e.inFlight {
		e.renewAt = d.now() // the deadline was reckoned with the earlier end
	}
	heap.Fix(&d.heap, e.index)
	d.lookInTime(d.now())
}

// SetLease has the renewals from now on ask for another lease. The deadline stands.
func (d *Watchdog[V, G]) SetLease(e *Entry[V], lease time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state != watched || e.Lease == lease {
		return
	}
	e.Lease = lease
	planned := e.renewAt
	e.plan(d.now())
	if !planned.IsZero() && planned < e.renewAt {
		e.renewAt = planned // nothing has been asked since, so it is not due later
	}
	heap.Fix(&d.heap, e.index)
	d.lookInTime(d.now())
}

// SetRenewing switches renewal on or off.
func (d *Watchdog[V, G]) SetRenewing(e *Entry[V], on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state != watched || e.renewing == on {
		return
	}
	e.renewing = on
	e.plan(d.now())
	if on {
		e.renewAt = d.now()
	}
	heap.Fix(&d.heap, e.index)
	d.lookInTime(d.now())
}

// Check asks the server now whether the entry's lock is still held.
func (d *Watchdog[V, G]) Check(e *Entry[V]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state != watched {
		return
	}
	e.check = true
	heap.Fix(&d.heap, e.index)
	d.lookInTime(d.now())
}

// Deadline returns until when the entry may be trusted; of one that is watched no
// more, until when it could have been.
func (d *Watchdog[V, G]) Deadline(e *Entry[V]) mono.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.deadline
}

// Overslept reports whether an entry's deadline has passed because the host was suspended.
func (d *Watchdog[V, G]) Overslept(e *Entry[V]) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, asleep := d.clock(time.Now())
	slept := asleep - e.asleep
	return slept > 0 && e.deadline <= now && now < e.deadline.Add(slept)
}

// Stop ends the goroutines and waits for them. No callback runs afterwards.
func (d *Watchdog[V, G]) Stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.stop()
	d.wg.Wait()
}

// finish takes a watched entry off the heap for good. d.mu is held.
func (d *Watchdog[V, G]) finish(e *Entry[V], s state) {
	e.state = s
	heap.Remove(&d.heap, e.index)
}

// lookInTime sets the timer for the first entry that is due, or for the next tick if that is earlier. It does not wake the goroutine
// before that: most holds end sooner. d.mu is held.
func (d *Watchdog[V, G]) lookInTime(now mono.Time) {
	if d.timer == nil || len(d.heap) == 0 {
		return
	}
	if d.tickAt.IsZero() {
		d.tickAt = now.Add(tick)
	}
	if at := min(d.tickAt, d.heap[0].next()); d.lookAt.IsZero() || at < d.lookAt {
		d.setTimer(now, at)
	}
}

// lookNoSooner postpones the timer after the removal of an entry that was due soon. d.mu is held.
func (d *Watchdog[V, G]) lookNoSooner(now mono.Time) {
	at := d.tickAt
	if len(d.heap) > 0 {
		at = min(at, d.heap[0].next())
	}
	if !d.lookAt.IsZero() && at > d.lookAt {
		d.setTimer(now, at)
	}
}

func (d *Watchdog[V, G]) setTimer(now, at mono.Time) {
	d.lookAt = at
	d.timer.Reset(max(0, at.Sub(now)))
}
