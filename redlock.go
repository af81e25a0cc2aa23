package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

// NewRedLock returns one lock on several servers that know nothing of each other: it is
// held while a quorum of them, more than half, hold it. Give it one lock of each: of any
// kind but a [PermitSemaphore], usually of the same name. Each has to be of a client of
// its own, and the clients have to reach independent servers, which nobody checks. Take
// five, or another odd number; and give the clients a short [WithTimeout], because that
// is how long a server is waited for when the others do not decide. It does no I/O.
//
// It promises that two holds do not overlap and that the lock can be acquired while
// fewer than half of the servers are away, if processes, networks and clocks are
// delayed or wrong by less than the leases allow for, and if a server that restarts
// either remembers what it held or stays away for as long as the longest lease.
// It does not promise that after a clock has jumped or a server has forgotten,
// and it gives no fencing token. A resource that must not be written to by two
// needs a [Fenced] lock whose tokens it checks, with or without a RedLock around.
//
// Lock asks all servers side by side, and returns as soon as a quorum has granted
// the lock; servers that answer later join the hold, or are given back as soon as they
// answer, if it has ended by then. If no quorum is reached, it gives back what it has got
// and tries again after a random pause, until ctx ends or [Wait] runs out. Waiters are not
// told of releases. Each lock has an owner of its client's. TryLock is one try: it returns
// within the longest [WithTimeout] of the clients. Either may take a tenth of a second more, in
// which the servers say why, and what was had is given back. Inspect asks all side by side, and needs
// all to answer.
//
// The hold lasts while a quorum lives: its deadline is the latest until which
// that is certain, and its context ends with a [*LostError] when fewer live. A
// lock that is lost on one of the other servers is not taken again. Extend has to
// succeed on a quorum, and so has Unlock, which asks every server. Its token is 0.
// The clients' hooks are told of each server's lock, those of [WithHooks] among
// the options of the whole.
//
// If Lock returns an error, the caller holds nothing more than before; what was
// had is given back, if need be in the background. The errors are those of a
// [Mutex]: a [*LockedError] if others hold the lock on too many servers; a
// [*BackendError] that says how many servers failed, and how, if too few work.
// Without a lock, or with one that is nil, not of a single client, or of the same
// client as another, every call returns [ErrInvalid].
//
// In Redis it is an ordinary lock on each server. Redisson: RedissonRedLock, whose lock
// and tryLock do not check that the quorum's leases still run.
func NewRedLock(lockers ...Locker) *MultiLock {
	m := &MultiLock{label: "redlock", independent: true}
	if len(lockers) == 0 {
		m.refuse("a RedLock of no locks")
	}
	var names []string
	for _, l := range lockers {
		m.addServer(l)
	}
	for _, p := range m.parts {
		if !slices.Contains(names, p.Name()) {
			names = append(names, p.Name())
		}
	}
	m.name, m.need = strings.Join(names, "+"), len(m.parts)/2+1
	return m
}

// addServer adds the lock of one more server.
func (m *MultiLock) addServer(l Locker) {
	if isNil(l) {
		m.refuse("a RedLock of a lock that is nil")
		return
	}
	p := part{Locker: l, kind: singleKind(l)}
	if p.kind == nil {
		m.refuse("a RedLock of a lock that is not one lock of one client: " + l.Name())
		return
	}
	if slices.ContainsFunc(m.parts, func(other part) bool { return other.kind.client == p.kind.client }) {
		m.refuse("a RedLock of two locks of one client: " + l.Name())
	}
	m.parts = append(m.parts, p)
}

// timeout is the longest of the clients'.
func (m *MultiLock) timeout() (longest time.Duration) {
	for _, p := range m.parts {
		longest = max(longest, p.kind.client.config.timeout)
	}
	return longest
}

// acquireQuorum asks all servers until a quorum has granted the lock.
func (m *MultiLock) acquireQuorum(bound context.Context, a *compositeAcquire) (*Hold, error) {
	if a.config.oneTry {
		var stop context.CancelFunc
		bound, stop = context.WithTimeoutCause(bound, m.timeout(), errWaitOver)
		defer stop()
	}
	var answered time.Time // when others were last found to hold it
	return a.acquire(bound, func(ctx context.Context) (*Hold, bool, error) {
		h, err := m.trySideBySide(ctx, a)
		if errors.Is(err, ErrLocked) {
			answered = time.Now()
		}
		return h, !a.config.oneTry && !answered.IsZero() && m.bears(err, answered), err
	})
}

// bears reports whether to try again after an error, when others were found to
// hold the lock before: at least, so many servers did work.
func (m *MultiLock) bears(err error, answered time.Time) bool {
	for _, final := range []error{ErrClosed, ErrLost, ErrReentrant, ErrInvalid} {
		if errors.Is(err, final) {
			return false
		}
	}
	return time.Since(answered) < outageTimeouts*m.timeout()
}

// trySideBySide asks every server once.
func (m *MultiLock) trySideBySide(bound context.Context, a *compositeAcquire) (*Hold, error) {
	c := newComposite(a.caller, m.name, a.kind, m.parts[0].kind.client, a.owners, len(m.parts), m.need, a.config)
	options := a.tryPart()
	for _, p := range m.parts {
		tasks := &p.kind.client.tasks
		if !tasks.Go(func() {
			var part *Hold
			err := errHook(p.Name()) // one may end the goroutine
			defer func() {
				if err != nil {
					c.partFailed(err)
					return
				}
				c.join(part)
			}()
			// It counts by itself, but for its hooks.
			tasks.Uncounted(func() { part, err = p.TryLock(c.ctx, options...) })
		}) {
			c.partFailed(problem(p.Name(), "", ErrClosed))
		}
	}
	for !a.handOut(c) {
		giveUp, before := bound, error(nil)
		select {
		case <-c.changed:
			if c.alive() == nil {
				continue
			}
		case <-bound.Done():
			if a.caller.Err() == nil && a.handOut(c) {
				return c.Hold, nil
			}
			if !endedByCaller(a.caller) {
				grace, stop := context.WithTimeout(context.WithoutCancel(a.caller), afterWait)
				defer stop()
				giveUp = grace
				if c.abandonForReasons(grace) {
					before = a.err
				}
			}
		}
		why, left := c.failure(before)
		a.left = !c.rollback(giveUp) || left || a.left
		return nil, why
	}
	return c.Hold, nil
}

// afterWait is the longest that a RedLock takes, when its wait is over, to hear why, and to give back what it has got.
const afterWait = 100 * time.Millisecond

// abandonForReasons is abandon, and lets the parts say until ctx ends what has come of it so far.
func (c *composite) abandonForReasons(ctx context.Context) bool {
	if !c.abandon() {
		return false
	}
	for c.silent() > 0 {
		select {
		case <-c.changed:
		case <-ctx.Done():
			return true
		}
	}
	return true
}

// silent is how many parts have not said yet what has come of them.
func (c *composite) silent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of - c.live - len(c.missed)
}

// failure says why too few parts could be had in time: because others hold them, unless too few servers work. Before is
// what came of the try before, if the end of the wait has cut this one short: that still holds unless Redis says something
// else by now. Left reports whether a part may be held still, of those that are not in c.members;
// the error does not.
func (c *composite) failure(before error) (why error, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.failures()
	spare := c.of - c.need
	switch {
	case f.reentrant != nil:
		return f.reentrant, f.left
	case c.live >= c.need: // they came when the wait was over
		return &BackendError{Op: opAcquire, Name: c.what.name, Err: call.ErrNoAnswer}, true
	case f.locked != nil && f.unavailable <= spare:
		return f.locked, f.left
	case before != nil && f.withReason <= spare:
		return before, f.left
	case f.lost == len(f.errs) && f.lost > 0:
		return errors.Join(f.errs...), f.left
	case f.silent > 0:
		f.errs = append(f.errs, fmt.Errorf("%d of them had not answered yet", f.silent))
	}
	return &BackendError{
		Op: opAcquire, Name: c.what.name,
		Err: fmt.Errorf("%d of %d servers have granted it, %d are needed: %w", c.live, c.of, c.need, errors.Join(f.errs...)),
	}, f.left
}

// failures are the parts of a RedLock that could not be had.
type failures struct {
	reentrant   error   // of one whose owner has it already, or nil
	locked      error   // of one that another holds, or nil
	errs        []error // of the others
	lost        int     // how many of those were had, and lost
	withReason  int     // how many of those have failed otherwise than by silence
	silent      int     // parts of which nothing is known yet
	unavailable int     // those that have failed, and the silent ones if they have had enough time
	left        bool    // one may be held still
}

// failures sorts them. c.mu is held.
func (c *composite) failures() failures {
	f := failures{silent: c.of - c.live - len(c.missed)}
	f.left = f.silent > 0
	for _, err := range c.missed {
		switch {
		case errors.Is(err, ErrReentrant):
			f.reentrant = err
		case errors.Is(err, ErrLocked):
			f.locked = cmp.Or(f.locked, err)
		default:
			f.errs = append(f.errs, err)
			f.left = f.left || mayBeHeld(err)
			if errors.Is(err, ErrLost) {
				f.lost++
			}
			if !call.IsTimeout(err) {
				f.withReason++
			}
			if call.Passes(err) { // it was asked again and again, and the silent ones have had as long
				f.unavailable = f.silent
			}
		}
	}
	f.unavailable += len(f.errs)
	return f
}
