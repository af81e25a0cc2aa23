package ledger

import "github.com/holdfast-go/holdfast/internal/mono"

// Account is that of one owner at one lock. It has the sides that were opened.
type Account[V any] struct{ sides [2]*Side[V] }

// Open adds a side, the i-th.
func (a *Account[V]) Open(i int, s *Side[V]) { a.sides[i] = s }

// Beside is the side other than the i-th; nil if there is none.
func (a *Account[V]) Beside(i int) *Side[V] { return a.sides[1-i] }

// KeyEnd is when the key will have gone, whatever is under way.
func (a *Account[V]) KeyEnd() (end mono.Time) {
	for _, s := range a.sides {
		if s != nil {
			end = max(end, s.End())
		}
	}
	return end
}

// Settled reports whether no open attempt can change what is asked for next, so that the owner's turn is free.
func (a *Account[V]) Settled() bool {
	for _, s := range a.sides {
		if s != nil && !s.harmless() {
			return false
		}
	}
	return true
}
