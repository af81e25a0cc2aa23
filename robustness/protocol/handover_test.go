package protocol

import (
	"reflect"
	"testing"
)

func TestHandOver(t *testing.T) {
	all := []invariant[processes]{noOverlap, nothingLeft, noFalseLoss}
	rows := []struct {
		what    string
		without Rules
		broken  []invariant[processes] // each by itself; nil: all hold
	}{
		{"the rules as they are implemented", Rules{}, nil},
		{"a naive hand-over", Rules{true, true, true, true, true, true, true, true, true, true, true, true}, all},
		{"a nested Lock does not look whether its hold still stands", Rules{NestedDoesNotLook: true}, []invariant[processes]{noOverlap}},
		{"a hold passes on while a call is under way", Rules{PassesUnclean: true}, []invariant[processes]{noOverlap}},
		{"a hold passes on that another is nested in", Rules{PassesNested: true}, []invariant[processes]{noOverlap}},
		{"a hold passes on whose owner is known", Rules{PassesKnown: true}, []invariant[processes]{noOverlap}},
		{"the lock is given to one that tries by itself", Rules{GivesToTrying: true}, []invariant[processes]{nothingLeft}},
		{"choosing and giving are two steps", Rules{GivesInTwoSteps: true}, []invariant[processes]{nothingLeft}},
		{"the next hold counts its deadline anew", Rules{TrustsAnew: true}, []invariant[processes]{noOverlap}},
		{"the turn is free at the first answer", Rules{FreesTurnEarly: true}, []invariant[processes]{noOverlap}},
		{"a send has no limit", Rules{NoLimit: true}, []invariant[processes]{nothingLeft}},
		{"nothing is cleaned up", Rules{NoCleanup: true}, []invariant[processes]{nothingLeft}},
		{"a hold is detached while a call is under way", Rules{DetachesUnclean: true}, []invariant[processes]{nothingLeft}},
		{"a detached owner is not retired", Rules{NotRetired: true}, []invariant[processes]{noOverlap}},
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
