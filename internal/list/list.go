// Package list is a doubly linked list whose nodes are part of what they link, so that
// to put something into a list allocates nothing. Whoever has the list guards it.
package list

// List is a list. The zero List is empty.
type List[T any] struct {
	first, last *Node[T]
	length      int
}

// Node is the place of one thing in at most one list.
type Node[T any] struct {
	Value T // what it is the place of

	list       *List[T] // nil: it is in none
	prev, next *Node[T]
}

// First returns the first node; nil if there is none.
func (l *List[T]) First() *Node[T] { return l.first }

// Last returns the last node; nil if there is none.
func (l *List[T]) Last() *Node[T] { return l.last }

// Len returns how many nodes there are.
func (l *List[T]) Len() int { return l.length }

// Next returns the node behind; nil if there is none.
func (n *Node[T]) Next() *Node[T] { return n.next }

// Prev returns the node in front; nil if there is none.
func (n *Node[T]) Prev() *Node[T] { return n.prev }

// InsertAfter puts a node that is in no list behind another one; nil: in front of all.
func (l *List[T]) InsertAfter(n, prev *Node[T]) {
	n.list, n.prev = l, prev
	if prev == nil {
		n.next, l.first = l.first, n
	} else {
		n.next, prev.next = prev.next, n
	}
	if n.next == nil {
		l.last = n
	} else {
		n.next.prev = n
	}
	l.length++
}

// Remove takes a node out, if it is in the list.
func (l *List[T]) Remove(n *Node[T]) {
	if n.list != l {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.list, n.prev, n.next = nil, nil, nil
	l.length--
}
