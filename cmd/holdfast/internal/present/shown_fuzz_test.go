package present

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// FuzzShown: whatever stands in Redis, nothing of it makes a terminal do something, and it is as wide as it may be.
func FuzzShown(f *testing.F) {
	for _, seed := range []string{
		"", "a", "\x1b[2J", "a\nb", "\x9b31m", "\xff\xfe", "\u202eabc", "e\u0301", "\u4e16\u754c", "\u200b", "\U000e0001", "👩‍👩‍👧‍👦", "\r", "\x00", strings.Repeat("x", 300), "\\", `"`, "\u2028", "\u00ad", "\u3164", "\ufe0f", strings.Repeat("\u0301", 9),
	} {
		f.Add(seed, seed, int64(1), 20)
		f.Add("x", seed, int64(-1), 1)
	}
	f.Fuzz(func(t *testing.T, name, other string, n int64, width int) {
		width = min(max(width, -1), 200)
		at := time.UnixMilli(1_700_000_000_000)
		who := holdfast.Identity{Program: other, Version: other, Host: name, PID: int(n)}
		h := survey.Holder{Owner: other, Who: who, Mode: survey.Reads, Count: n, Since: at.Add(-time.Duration(n)), TTL: time.Duration(n)}
		for _, kind := range survey.Kinds() {
			l := survey.Lock{
				Name: name, Kind: kind, State: survey.Held, At: at, TTL: time.Duration(n), Mode: survey.Reads, Token: n, Holders: []survey.Holder{h, {Owner: other}},
				HolderCount: 2, Waiters: []survey.Waiter{{Owner: other, Who: who, Wants: n}, {Owner: name, Silent: true}}, Waiting: 2, Total: n, Available: n, Taken: n, Count: n,
			}
			safe(t, append(Details(l, width), Details(l, 0)...)...)
			safe(t, Safe(name), Who(who, other), HolderOf(l), HeldOf(l), LeftOf(l), WaitingOf(l), StateOf(l), KindOf(l), HoldOf(h, l), briefHolder(l))
		}
		fitted := Fit(Safe(name), width)
		safe(t, fitted)
		if got := ansi.StringWidth(fitted); got > max(width, 0) {
			t.Errorf("%q is %d columns wide, and not %d", fitted, got, width)
		}
		if plain := Safe(name); utf8.ValidString(name) && ansi.StringWidth(plain) <= width && Fit(plain, width) != plain {
			t.Errorf("%q was shortened to %q", plain, Fit(plain, width))
		}
	})
}

// safe fails if a text has something that a terminal obeys or hides.
func safe(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if visible.Text(text) != text {
			t.Errorf("%q comes to the terminal", text)
		}
	}
}
