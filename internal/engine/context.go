package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// Held is what may end: a hold of one lock, or of several.
type Held interface {
	// Err returns why it has ended, or nil while it lasts.
	Err() error
}

// holderKey is where a context has who holds a lock: a *within.
type holderKey struct{ *Lock }

// within is a context that says who holds one lock. It is inside the context that it was made from.
type within struct {
	context.Context

	lock    *Lock
	owner   string
	account *account // nil: it is to be looked up
	held    Held     // it holds the lock while this lasts
}

// Value returns who holds the lock, or what the context has that it was made from.
func (w *within) Value(key any) any {
	if of, ok := key.(holderKey); ok && of.Same(w.lock) {
		return w
	}
	return w.Context.Value(key)
}

// withinIn returns the innermost context around ctx that says who holds the lock; nil if there is none, or no lock.
func withinIn(ctx context.Context, l *Lock) *within {
	if l == nil {
		return nil
	}
	w, _ := ctx.Value(holderKey{l}).(*within)
	return w
}

// WithHolder returns a context under which the owner holds the lock while a hold of several locks lasts.
func WithHolder(ctx context.Context, l *Lock, owner string, held Held) context.Context {
	return &within{Context: ctx, lock: l, owner: owner, held: held}
}

// scopeKey is where a context has an owner for all locks: a *scope.
type scopeKey struct{}

// scope is one use of [WithOwner]. It hides the holds whose contexts lie further out.
type scope struct {
	owner   string
	invalid error // why it is no owner
	none    bool  // there is no owner at all
}

// WithOwner returns a context whose calls belong to an owner, at every lock of its client. Calls under it fail with invalid
// if that is not nil.
func WithOwner(ctx context.Context, owner string, invalid error) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{owner: owner, invalid: invalid})
}

// WithoutOwner returns a context under which nothing is held.
func WithoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{none: true})
}

func scopeIn(ctx context.Context) *scope {
	mustExist(ctx)
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// claim says for which owner a call acts.
type claim struct {
	owner   string
	account *account // nil: it is to be looked up
	// held is the hold under whose context the call is made, and in which it is to be nested. nil: the owner was set by hand,
	// or is fresh.
	held  Held
	lost  error // why that hold is lost
	fresh bool  // the owner is new: nobody knows it
}

// claimIn returns the owner that ctx has for the lock, and whether it has one. A hold that was given back has none, though
// its context may live on (as WithoutCancel); one that was lost has.
func claimIn(ctx context.Context, l *Lock) (found claim, ok bool) {
	s := scopeIn(ctx)
	for w := withinIn(ctx, l); w != nil && scopeIn(w.Context) == s; w = withinIn(w.Context, l) {
		if err := w.held.Err(); err == nil || errors.Is(err, lockerr.Lost) {
			return claim{owner: w.owner, account: w.account, held: w.held, lost: err}, true
		}
	}
	if s == nil || s.none {
		return claim{}, false
	}
	return claim{owner: s.owner}, true
}

// claimFor returns for which owner a Lock under ctx acts: the one that ctx has, or a new one.
func claimFor(ctx context.Context, l *Lock) (claim, error) {
	found, ok := claimIn(ctx, l)
	switch {
	case !ok:
		return claim{owner: l.Engine.freshOwner(), fresh: true}, nil
	case found.lost != nil && ctx.Err() == nil: // else the call has ended before it began
		return found, found.lost
	case found.owner == "":
		return found, fmt.Errorf("holdfast: %w owner: the context carries the zero Owner", lockerr.Invalid)
	case !l.Engine.owns(found.owner):
		return found, fmt.Errorf("holdfast: %w owner: %v belongs to another client; a hold is handed over by Detach and Adopt",
			lockerr.Invalid, found.owner)
	case found.held != nil:
		return found, nil
	case scopeIn(ctx).invalid != nil:
		return found, scopeIn(ctx).invalid
	case !l.Engine.hasMade(found.owner):
		return found, fmt.Errorf("holdfast: %w owner: %v was made by nobody", lockerr.Invalid, found.owner)
	}
	return found, nil
}

// err returns why the hold has ended that a call was to be nested in, or nil.
func (c claim) err() error {
	if c.held == nil {
		return nil
	}
	return c.held.Err()
}

// disclose asks the hold for its owner, so that it does not pass on any more. It reports false if it has passed on before.
func (c claim) disclose() bool {
	one, ok := c.held.(*Hold)
	return !ok || one.Owner() != ""
}

// OwnerFor returns the owner that Lock under ctx would belong to, for somebody who may use it, and whether ctx has one. If it
// has none, the owner is fallback, or a new one if that is empty. That ctx has a lost hold is an error.
func OwnerFor(ctx context.Context, l *Lock, fallback string) (owner string, ok bool, err error) {
	for {
		if _, ok := claimIn(ctx, l); !ok {
			if fallback == "" {
				fallback = l.Engine.NewOwner()
			}
			return fallback, false, nil
		}
		if found, err := claimFor(ctx, l); err != nil || found.disclose() {
			return found.owner, true, err
		}
	}
}

// OwnerIn returns the owner that ctx has for the lock, for somebody who may use it, and whether it has one. Without a lock it
// is what [WithOwner] has set.
func OwnerIn(ctx context.Context, l *Lock) (owner string, ok bool) {
	for {
		found, ok := claimIn(ctx, l)
		if found.disclose() {
			return found.owner, ok
		}
	}
}
