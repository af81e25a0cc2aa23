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
	"github.com/holdfast-go/holdfast/internal/engine"
)

// NewRedLock returns one lock on several servers that know nothing of each other: it is held while a quorum, more than
// half, hold it. Give it one lock of each server, of any kind but a [PermitSemaphore] and usually of one name, each of
// a client of its own. Take an odd number such as five, and a short [WithTimeout]: so long a silent server is waited
// for when others do not decide. It does no I/O.
//
// Two holds do not overlap, and the lock can be acquired while fewer than half of the servers are away, if delays and
// wrong clocks stay below what the leases allow for, and if a server that restarts remembers what it held or stays away
// for the longest lease. After a clock has jumped or a server has forgotten, two may hold it. It has no fencing token: a
// resource that two must never write to needs a [Fenced] lock.
//
// Lock asks all servers at once, and returns as soon as a quorum has granted the lock; later grants join the hold, or are
// given back. Without a quorum it gives back what it has got and tries again after a random pause; waiters are not told of
// releases. TryLock is one try, within the longest [WithTimeout] of the clients. Either may take a tenth of a second more
// for the servers to say why. Inspect needs all to answer.
//
// The hold's deadline is the latest until which a quorum certainly lives; its context ends with a [*LostError] when fewer
// do. A part that is lost is not taken again. Extend and Unlock ask every server, and have to succeed on a quorum. Owners,
// errors and hooks are as with [MultiLock.Lock]; a [*LockedError] says that others hold it on too many servers, a
// [*BackendError] how many failed, and how. Every call returns [ErrInvalid] without a lock, or with one that is nil, not
// of a single client, or of the same client as another.
//
// Redisson: RedissonRedLock, whose lock and tryLock do not check that the quorum's leases still run.
func NewRedLock(lockers ...Locker) *MultiLock {
	m := newMultiLock("redlock", "a RedLock", lockers, (*MultiLock).addServer)
	m.independent = true
	var names []string
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
	p := part{Locker: l, handle: handleOf(l)}
	if p.handle == nil {
		m.refuse("a RedLock of a lock that is not one lock of one client: " + l.Name())
		return
	}
	if slices.ContainsFunc(m.parts, func(other part) bool { return other.handle.client == p.handle.client }) {
		m.refuse("a RedLock of two locks of one client: " + l.Name())
	}
	m.parts = append(m.parts, p)
}

// timeout is the longest of the clients'.
func (m *MultiLock) timeout() (longest time.Duration) {
	for _, p := range m.parts {
		longest = max(longest, p.handle.client.config.Timeout)
	}
	return longest
}

// tryQuorum asks all servers side by side, until a quorum has granted the lock or cannot any more.
func (a *compositeAcquire) tryQuorum(bound context.Context) (again bool, err error) {
	c := newComposite(a)
	for _, p := range a.parts {
		go func() { // its TryLock bounds it, and is waited for by Close
			one, err := p.TryLock(c.ctx, a.tryPart())
			if err != nil {
				c.partFailed(err)
				return
			}
			c.join(one)
		}()
	}
	for !a.handOut(c) {
		if c.Err() != nil || bound.Err() != nil {
			return a.withoutQuorum(bound, c)
		}
		select {
		case <-c.changed:
		case <-bound.Done():
		}
	}
	return false, nil
}

// afterWait bounds the time in which a RedLock, when its wait is over or its context has ended, collects the reasons and releases
// what it has acquired.
const afterWait = 100 * time.Millisecond

// withoutQuorum gives back what a try has got, and says why that is too little, and whether to ask again: others have
// been found to hold the lock, so enough servers have worked.
func (a *compositeAcquire) withoutQuorum(bound context.Context, c *composite) (again bool, err error) {
	rollbackBound, before := bound, error(nil)
	if bound.Err() != nil {
		grace, stop := context.WithTimeout(context.WithoutCancel(a.caller), afterWait)
		defer stop()
		switch {
		case engine.EndedByCaller(a.caller):
			c.awaitAll(grace)
		case c.abandon():
			before = a.err
			c.awaitAll(grace)
			fallthrough
		default:
			rollbackBound = grace
		}
	}
	err = a.quorumFailure(c, before)
	c.rollback(rollbackBound)
	if errors.Is(err, ErrLocked) {
		a.lockedAt = time.Now()
	}
	final := a.config.OneTry || a.lockedAt.IsZero() || isAny(err, ErrClosed, ErrLost, ErrReentrant, ErrInvalid)
	return !final && time.Since(a.lockedAt) < engine.Outage*a.timeout(), err
}

// quorumFailure says why too few parts were acquired in time: because others hold them, unless too few servers work.
// Before is what came of the try before, if the end of the wait has cut this one short: that still holds unless Redis
// says something else by now.
func (a *compositeAcquire) quorumFailure(c *composite, before error) error {
	live, missed := c.outcome()
	silent, spare := len(a.parts)-live-len(missed), len(a.parts)-a.need
	var locked error
	var failed []error
	withReason, unavailable := 0, 0
	a.mayHaveRun = a.mayHaveRun || live+silent > 0
	for _, err := range missed {
		a.mayHaveRun = a.mayHaveRun || !isRefusal(err)
		switch {
		case errors.Is(err, ErrReentrant):
			return err
		case errors.Is(err, ErrLocked):
			locked = cmp.Or(locked, err)
			continue
		case !call.IsTimeout(err):
			withReason++
		}
		failed = append(failed, err)
		if call.Passes(err) { // it was asked again and again, and the silent ones have had as long
			unavailable = silent
		}
	}
	unavailable += len(failed)
	switch {
	case live >= a.need:
		return a.tooLate()
	case locked != nil && unavailable <= spare:
		return locked
	case before != nil && withReason <= spare:
		return before
	}
	return a.tooFew(live, silent, failed)
}

// tooLate is the error for a quorum that was granted when the wait was over, or the caller had given up.
func (a *compositeAcquire) tooLate() error {
	if time.Since(a.started) < call.Patience(a.caller, true, a.ackTimeout()) {
		return context.Cause(a.caller) // the servers were just about to reply
	}
	return &BackendError{Op: engine.OpAcquire, Name: a.name, Err: call.ErrNoAnswer}
}

// tooFew is the error for servers that failed, or were silent, in a try.
func (a *compositeAcquire) tooFew(live, silent int, failed []error) error {
	switch {
	case silent > 0:
		failed = append(failed, fmt.Errorf("%d of them had not answered yet", silent))
	case engine.EndedByCaller(a.caller) && !slices.ContainsFunc(failed, isBackend):
		return context.Cause(a.caller) // the servers may just have been about to reply
	}
	return &BackendError{
		Op: engine.OpAcquire, Name: a.name,
		Err: fmt.Errorf("%d of %d servers have granted it, %d are needed: %w", live, len(a.parts), a.need, joinOnce(failed...)),
	}
}
