package text

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, lead string
		width      int
		want       []string
	}{
		{"one two three averylongword x", "* ", 9, []string{"* one two", "  three", "  averylongword", "  x"}},
		{`the lock "a  b" is`, "", 15, []string{`the lock "a  b"`, "is"}},
		{"at the end   of it", "", 12, []string{"at the end", "of it"}},
		{"größe grüße x", "✓ ", 13, []string{"✓ größe grüße", "  x"}},
		{"", "> ", 9, []string{"> "}},
	} {
		if got := Wrap(c.text, c.lead, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 permits", 1: "1 permit", 2: "2 permits"} {
		if got := Count(n, "permit"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
