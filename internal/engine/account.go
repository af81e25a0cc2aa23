package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/binarysem"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
)

// account is what this process knows of one owner at one lock, both sides of it. It comes into being with the owner's first
// call and goes when nobody needs it.
type account struct {
	engine      *Engine
	name, class string
	owner       string

	// turn is the right to ask Redis for a change on behalf of this owner at this lock. It is kept until the outcome of the
	// change is known. So changes come one after another, and an old one cannot undo a newer one.
	turn binarysem.Sem

	refs atomic.Int32 // calls under way, counts of holds, goroutines

	mu     sync.Mutex // guards what follows, and the sides
	ledger ledger.Account[*Hold]
	sides  [2]*side
	first  side // what sides points to at first
	// undisclosed says that nobody outside the library knows the owner.
	undisclosed bool
	// fewer is closed when a count falls; nil if nobody waits for that.
	fewer chan struct{}
	// waiter is that of the acquire that has the turn; nil if none waits in a queue.
	waiter *waiter
	// gone is the last acquire that has waited in a queue, and given up; nil if there was none.
	gone *gone
	// retries says that tryAgain is going to give back what Redis has refused to take.
	retries bool
	// failure is why the last release has failed; nil if it has not.
	failure error
}

// accountKey is an owner at a lock.
type accountKey struct{ name, class, owner string }

func (a *account) key() accountKey { return accountKey{a.name, a.class, a.owner} }

// background runs f on a goroutine of its own, for which the account is kept. It reports false if the client has closed.
func (a *account) background(f func()) bool {
	a.ref()
	begun := a.engine.Tasks.Go(func() {
		defer a.unref()
		f()
	})
	if !begun {
		a.unref()
	}
	return begun
}

// disclosed reports whether the owner may be set by hand. Otherwise it belongs to another call, and was read in Redis.
func (a *account) disclosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.undisclosed
}

func (a *account) ref() { a.refs.Add(1) }

// unref drops the account if nobody needs it any more.
func (a *account) unref() {
	if a.refs.Add(-1) == 0 {
		a.engine.accounts.drop(a)
	}
}

// side returns the side of a lock, and opens it if need be.
func (a *account) side(l *Lock) *side {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sides[l.Side] == nil {
		a.addSide(new(side), l)
	}
	return a.sides[l.Side]
}

// addSide makes s the side of a lock. mu is held, or nobody else knows the account.
func (a *account) addSide(s *side, l *Lock) {
	s.account, s.lock = a, l
	a.sides[l.Side] = s
	a.ledger.Sides[l.Side] = &s.Side
}

// opened are the account's sides. mu is held.
func (a *account) opened(yield func(*side) bool) {
	for _, s := range a.sides {
		if s != nil && !yield(s) {
			return
		}
	}
}

// locked runs f with mu held.
func (a *account) locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// live is how many holds are neither given back nor lost.
func (a *account) live() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		n += s.Live()
	}
	return n
}

// takeTurn waits for the right to ask Redis for a change. It returns the context's cause if ctx ends first.
func (a *account) takeTurn(ctx context.Context) error {
	if a.turn.TryTake() {
		return nil
	}
	select {
	case a.turn.Chan() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errBusy is the failure of a call that has waited in vain for the turn, or for what an earlier call has sent.
var errBusy = fmt.Errorf("an earlier call of its owner has no answer yet: %w", call.ErrNoAnswer)

// refusedSince is what the call that has the turn was refused with, if it waits in a queue, or has given up since then and not long
// ago; else nil.
func (a *account) refusedSince(then time.Time) error {
	a.mu.Lock()
	waiter, last := a.waiter, a.gone
	for s := range a.opened {
		if s.Possible() > 0 { // the owner has had the lock since
			last = nil
		}
	}
	a.mu.Unlock()
	if waiter != nil {
		if refusal := waiter.Lore().Refusal; refusal != nil {
			return refusal
		}
	}
	if last == nil || !last.at.After(then) || time.Since(last.at) > a.engine.Timeout/3 {
		return nil
	}
	return last.refusal
}

// gone is an acquire that has given up: when, and what it was refused with last.
type gone struct {
	refusal error
	at      time.Time
}

// noteRefusal notes that an acquire gives up that has waited in a queue.
func (a *account) noteRefusal(refusal error) {
	a.locked(func() { a.gone = &gone{refusal, time.Now()} })
}

// setWaiter notes the waiter of the acquire that has the turn; nil when it waits no more.
func (a *account) setWaiter(w *waiter) {
	a.locked(func() { a.waiter = w })
}

// fell tells those who wait for it that a count has fallen. mu is held.
func (a *account) fell() {
	if a.fewer != nil {
		close(a.fewer)
		a.fewer = nil
	}
}

// openAttempts are those of all sides.
func (a *account) openAttempts() (all []*call.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		all = append(all, s.open...)
	}
	return all
}
