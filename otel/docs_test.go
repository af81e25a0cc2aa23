package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/doctable"
)

// rows are the rows of the table whose head begins with first.
func rows(t *testing.T, first string) [][]string {
	return doctable.Rows(t, "../docs/telemetry.md", first)
}

// The attributes of spans are documented, and no other.
func TestSpansAreDocumented(t *testing.T) {
	var got []string
	for _, row := range rows(t, "attribute of the span") {
		got = append(got, strings.Split(row[0], ", ")...)
	}
	slices.Sort(got)
	var want []string
	for _, key := range []attribute.Key{nameKey, kindKey, waitTimeKey, tokenKey, handedOverKey, errorTypeKey, holderKey, whoKey} {
		want = append(want, string(key))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documented are %v, there are %v", got, want)
	}
}

// Each error.type is documented, and no other.
func TestErrorTypesAreDocumented(t *testing.T) {
	documented := func(first string) (all []string) {
		for _, row := range rows(t, first) {
			all = append(all, row[0])
		}
		slices.Sort(all)
		return all
	}
	types := []string{otherType}
	for _, known := range errorTypes {
		types = append(types, known.text)
	}
	slices.Sort(types)
	if got := documented("of an acquire, a renewal, the end of a hold, or in the background"); !slices.Equal(got, types) {
		t.Errorf("documented are %v, there are %v", got, types)
	}
	var losses []string
	for _, text := range lossTypes {
		losses = append(losses, text)
	}
	slices.Sort(losses)
	if got := documented("of a loss"); !slices.Equal(got, losses) {
		t.Errorf("documented are %v, there are %v", got, losses)
	}
}

// What mostly happens of each documented kind is known beforehand: nothing is allocated for it.
func TestKindsAreKnown(t *testing.T) {
	for _, row := range rows(t, "attribute") {
		if row[0] != string(kindKey) {
			continue
		}
		for kind := range strings.SplitSeq(row[1], ", ") {
			if _, known := knownSeries()[series{kind: kind}]; !known {
				t.Errorf("%s is not known beforehand", kind)
			}
		}
		return
	}
	t.Error("the kinds are not documented")
}

// Every error has a type, the first that it matches.
func TestErrorTypes(t *testing.T) {
	for want, err := range map[string]error{
		"":               nil,
		"locked":         &holdfast.LockedError{},
		"no_permits":     &holdfast.PermitsError{},
		"backend":        &holdfast.BackendError{Err: context.DeadlineExceeded},
		"other_kind":     &holdfast.BackendError{Err: holdfast.ErrOtherKind},
		"lost":           &holdfast.LostError{Reason: holdfast.LostUnanswered, Err: &holdfast.BackendError{}},
		"not_held":       holdfast.ErrNotHeld,
		"untold":         holdfast.ErrUntold,
		"timeout":        fmt.Errorf("x: %w", context.DeadlineExceeded),
		"cancelled":      context.Canceled,
		"not_zero":       holdfast.ErrNotZero,
		"not_replicated": holdfast.ErrNotReplicated,
		"reentrant":      holdfast.ErrReentrant,
		"_OTHER":         errors.New("else"),
	} {
		if got := errorType(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	for reason, want := range map[holdfast.LostReason]string{holdfast.LostTaken: "taken", holdfast.LostParts: "parts", "new": "_OTHER"} {
		if got := lossType(&holdfast.LostError{Reason: reason}); got != want {
			t.Errorf("%s is %q, want %q", reason, got, want)
		}
	}
}
