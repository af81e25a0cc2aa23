package protocol

import (
	"reflect"
	"testing"
)

func TestHandOver(t *testing.T) {
	all := []invariant[scene]{noOverlap, nothingLeft, noFalseLoss}
	rows := []struct {
		what    string
		without Rules
		broken  []invariant[scene] // each by itself; nil: all hold
	}{
		{"the rules as they are implemented", Rules{}, nil},
		{"a naive hand-over", Rules{true, true, true, true, true, true, true, true, true, true, true, true}, all},
		{"a nested Lock does not look whether its hold still stands", Rules{NestedDoesNotLook: true}, []invariant[scene]{noOverlap}},
		{"a hold passes on while a call is under way", Rules{PassesUnclean: true}, []invariant[scene]{noOverlap}},
		{"a hold passes on that another is nested in", Rules{PassesNested: true}, []invariant[scene]{noOverlap}},
		{"a hold passes on whose owner is known", Rules{PassesKnown: true}, []invariant[scene]{noOverlap}},
		{"the lock is given to one that tries by itself", Rules{GivesToTrying: true}, []invariant[scene]{nothingLeft}},
		{"choosing and giving are two steps", Rules{GivesInTwoSteps: true}, []invariant[scene]{nothingLeft}},
		{"the next hold counts its deadline anew", Rules{TrustsAnew: true}, []invariant[scene]{noOverlap}},
		{"changeSem is free at the first answer", Rules{FreesTurnEarly: true}, []invariant[scene]{noOverlap}},
		{"a send has no limit", Rules{NoLimit: true}, []invariant[scene]{nothingLeft}},
		{"nothing is cleaned up", Rules{NoCleanup: true}, []invariant[scene]{nothingLeft}},
		{"a hold is detached while a call is under way", Rules{DetachesUnclean: true}, []invariant[scene]{nothingLeft}},
		{"a detached owner is not retired", Rules{NotRetired: true}, []invariant[scene]{noOverlap}},
	}
	dropped := map[Rules]bool{}
	for _, row := range rows {
		dropped[row.without] = true
		t.Run(row.what, func(t *testing.T) {
			if row.broken == nil {
				f := search(HandOver{row.without}, all...)
				t.Log(f.report(row.what))
				if f.broken != "" {
					t.Errorf("%s is broken", f.broken)
				}
			}
			for _, broken := range row.broken {
				f := search(HandOver{row.without}, broken)
				t.Log(f.report(row.what))
				if f.broken == "" {
					t.Errorf("%s is not broken, though it must be", broken.name)
				}
			}
		})
	}
	for i := range reflect.TypeFor[Rules]().NumField() {
		var one Rules
		reflect.ValueOf(&one).Elem().Field(i).SetBool(true)
		if !dropped[one] {
			t.Errorf("no row drops %s alone", reflect.TypeFor[Rules]().Field(i).Name)
		}
	}
}
