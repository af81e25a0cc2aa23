package list

import (
	"slices"
	"testing"
)

// A list says the same from both ends, wherever nodes come and go.
func TestList(t *testing.T) {
	var l List[int]
	nodes := make([]Node[int], 4)
	for i := range nodes {
		nodes[i].Value = i
	}
	want := func(want ...int) {
		t.Helper()
		var there, back []int
		for n := l.First(); n != nil; n = n.Next() {
			there = append(there, n.Value)
		}
		for n := l.Last(); n != nil; n = n.Prev() {
			back = append([]int{n.Value}, back...)
		}
		if !slices.Equal(there, want) || !slices.Equal(back, want) || l.Len() != len(want) {
			t.Errorf("%v and %v, %d, and not %v", there, back, l.Len(), want)
		}
	}
	want()
	l.InsertAfter(&nodes[1], l.Last())
	l.InsertAfter(&nodes[3], l.Last())
	l.InsertAfter(&nodes[0], nil)
	l.InsertAfter(&nodes[2], &nodes[1])
	want(0, 1, 2, 3)
	l.Remove(&nodes[1])
	l.Remove(&nodes[1]) // is not there any more
	want(0, 2, 3)
	l.Remove(&nodes[0])
	l.Remove(&nodes[3])
	want(2)
	l.Remove(&nodes[2])
	want()
	l.InsertAfter(&nodes[1], l.Last())
	want(1)
}
