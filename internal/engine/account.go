package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

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

// attemptsInDoubt are those of all sides.
func (a *account) attemptsInDoubt() (all []*call.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.opened {
		all = append(all, s.inDoubt...)
	}
	return all
}

// accounts are those of one client. An account is in one of the two maps.
type accounts struct {
	mu    sync.Mutex
	fresh map[int64]*account      // of owners that acquires have made, by number
	known map[accountKey]*account // of owners that were set by hand
}

func newAccounts() accounts {
	return accounts{fresh: map[int64]*account{}, known: map[accountKey]*account{}}
}

// each calls f with every account, under mu.
func (s *accounts) each(f func(*account)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.fresh {
		f(a)
	}
	for _, a := range s.known {
		f(a)
	}
}

// add adds an account, of an owner that its call has made if fresh is set. Otherwise it returns the account that there is already, if
// there is one; nil if the owner belongs to another call.
func (s *accounts) add(a *account, fresh bool) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh {
		return s.byHand(a)
	}
	s.fresh[numberOf(a.owner)] = a
	return a
}

// byHand returns the account of an owner who was set by hand: if there is none, a. It is nil if the owner is another call's
// own. mu is held.
func (s *accounts) byHand(a *account) *account {
	key, number := a.accountKey, numberOf(a.owner)
	found := s.known[key]
	if made := s.fresh[number]; made != nil && made.accountKey == key {
		found = made
	}
	switch {
	case found == nil:
		found = a
	case !found.disclosed():
		return nil
	default:
		found.refs.Add(1)
		if s.fresh[number] == found {
			delete(s.fresh, number)
		}
	}
	s.known[key] = found
	return found
}

// drop drops an account, unless somebody needs it.
func (s *accounts) drop(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.refs.Load() > 0 { // somebody has found it meanwhile
		return
	}
	if number := numberOf(a.owner); s.fresh[number] == a {
		delete(s.fresh, number)
	} else if s.known[a.accountKey] == a {
		delete(s.known, a.accountKey)
	}
}

// releaseLater gives back in the background what is not handed out, once the turn is free.
func (a *account) releaseLater() {
	a.background(func() {
		if a.takeTurn(a.engine.Life) == nil {
			a.freeTurn(true)
		}
	})
}
