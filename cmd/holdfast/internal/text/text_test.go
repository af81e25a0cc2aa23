package text

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	got := Wrap("one two  three averylongword x", "* ", 9)
	if want := []string{"* one two", "  three", "  averylongword", "  x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
