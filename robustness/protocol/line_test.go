package protocol

import (
	"reflect"
	"slices"
	"testing"
)

func TestLine(t *testing.T) {
	overlap := []string{noTwoTrust, keyOutlives}
	rows := []struct {
		what    string
		without LineRules
		broken  []string // the invariants, each by itself; nil: all hold
	}{
		{"the rules as they are implemented", LineRules{}, nil},
		{"a deadline counts from the message", LineRules{CountsFromArrival: true}, overlap},
		{"a deadline counts from the last attempt of the ask", LineRules{CountsFromRepeat: true}, overlap},
		{"a message is believed whatever its number is", LineRules{BelievesAnyNumber: true}, overlap},
		{"a message of an earlier wait is believed", LineRules{BelievesEarlier: true}, overlap},
		{"a wait has one number, and a deadline counts from its last answered ask", LineRules{OneNumberAWait: true}, overlap},
		{"a waiter with a message does not confirm", LineRules{WorksUnconfirmed: true}, overlap},
		{"a grant does not expire", LineRules{NoGrantLease: true}, []string{comesToLock}},
		{"a grant does not look who hears of it", LineRules{GrantsUnheard: true}, []string{comesToLock}},
		{"a waiter in line does not ask", LineRules{NeverAsksAgain: true}, []string{comesToLock}},
		{"leave does not release what was granted", LineRules{LeavesGrant: true}, []string{leftNothing}},
		{"leave does not wait for asks under way", LineRules{LeavesEarly: true}, []string{leftNothing}},
		{"leave does not wait for the end of the hold", LineRules{LeavesInside: true}, overlap},
		{"an owner waits anew while its leave is under way", LineRules{WaitsAnewEarly: true}, overlap},
	}
	dropped := map[LineRules]bool{}
	for _, row := range rows {
		dropped[row.without] = true
		t.Run(row.what, func(t *testing.T) {
			m := Line{row.without}
			if row.broken == nil {
				f := search(m, m.invariants()...)
				t.Log(f.report(row.what))
				if f.broken != "" {
					t.Errorf("%s is broken", f.broken)
				}
			}
			for _, broken := range m.invariants() {
				if !slices.Contains(row.broken, broken.name) {
					continue
				}
				f := search(m, broken)
				t.Log(f.report(row.what))
				if f.broken == "" {
					t.Errorf("%s is not broken, though it must be", broken.name)
				}
			}
		})
	}
	for i := range reflect.TypeFor[LineRules]().NumField() {
		var one LineRules
		reflect.ValueOf(&one).Elem().Field(i).SetBool(true)
		if !dropped[one] {
			t.Errorf("no row drops %s alone", reflect.TypeFor[LineRules]().Field(i).Name)
		}
	}
}
