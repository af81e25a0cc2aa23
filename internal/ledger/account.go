package ledger

import "github.com/holdfast-go/holdfast/internal/mono"

// Account is that of one owner at one lock. Its sides are those that were opened.
type Account[V any] struct{ Sides [2]*Side[V] }

// KeyEnd is when the key will have gone, whatever is under way.
func (a *Account[V]) KeyEnd() (end mono.Time) {
	for _, s := range a.Sides {
		if s != nil {
			end = max(end, s.End())
		}
	}
	return end
}

// Harmless reports whether no open attempt can change what is asked for next, and no leave is due, so that the owner's turn is free.
func (a *Account[V]) Harmless() bool {
	for _, s := range a.Sides {
		if s != nil && !s.harmless() {
			return false
		}
	}
	return true
}
