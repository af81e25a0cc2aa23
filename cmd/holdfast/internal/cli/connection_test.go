package cli

import (
	"slices"
	"testing"
)

// What is passed on to a command is what has a value, also one that ends in "=", as passwords in
// Base64 do.
func TestGiven(t *testing.T) {
	t.Parallel()
	if got := given([]string{"A=", "B=YWJj=", "C=x"}); !slices.Equal(got, []string{"B=YWJj=", "C=x"}) {
		t.Error(got)
	}
}
