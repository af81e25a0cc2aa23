package holdfast

import (
	"slices"
	"testing"
)

// Those with one hash are told apart, and none of them is in the others' way when it comes
// or goes.
func TestOwnerStatesWithOneHash(t *testing.T) {
	all := newOwnerStates()
	all.hash = func(ownerStateKey) uint64 { return 7 }
	states := make([]*ownerState, 3)
	for i, owner := range []string{"c:1", "c:2", "c:3"} {
		states[i] = &ownerState{ownerOf: ownerOf{&kind{traits: mutexTraits, name: "x"}, Owner{owner}}}
	}
	here := map[*ownerState]bool{}
	check := func(step string) {
		t.Helper()
		for i, s := range states {
			want := s
			if !here[s] {
				want = nil
			}
			if all.get(s.key()) != want {
				t.Errorf("%s: the state of owner %d", step, i+1)
			}
		}
		each := slices.Collect(all.each())
		if len(each) != len(here) || slices.ContainsFunc(each, func(s *ownerState) bool { return !here[s] }) {
			t.Errorf("%s: there are %d, want %d", step, len(each), len(here))
		}
	}
	add := func(i int) { all.add(states[i]); here[states[i]] = true }
	remove := func(i int) { all.remove(states[i]); delete(here, states[i]) }
	check("none")
	add(0)
	add(1)
	check("two")
	remove(0)
	check("the second alone")
	add(2)
	add(0)
	check("all")
	remove(1)
	remove(2)
	check("the first alone")
	remove(0)
	check("none again")
}
