package visible

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestText has one of each sort of what a terminal obeys or a reader does not see.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"orders:42 \"a\\b\" \u4e16\u754c é e\u0301":       "orders:42 \"a\\b\" \u4e16\u754c é e\u0301",
		"\x1b[31mred\x1b]0;title\x07":                     `\x1b[31mred\x1b]0;title\a`,
		"a\nb\tc\rd\x00\x7f":                              `a\nb\tc\rd\x00\x7f`,
		"\u0085\u009b":                                    `\u0085\u009b`,
		"\x9b31m\xff":                                     `\x9b31m\xff`,
		"\ufffd":                                          "\ufffd", // a character like others
		"\u202eabc\u202c\u2066\u2069\u200f":               `\u202eabc\u202c\u2066\u2069\u200f`,
		"a\u200bb\u2060c\u2028d\ufeff":                    `a\u200bb\u2060c\u2028d\ufeff`,
		"a\u3164\u115f\u1160\uffa0":                       `a\u3164\u115f\u1160\uffa0`,
		"a\u034f\u17b4\u180b\u180f\ufe00\ufe0f\U000e0100": `a\u034f\u17b4\u180b\u180f\ufe00\ufe0f\U000e0100`,
		"\U000e0001\U000e0061\U000e0fff":                  `\U000e0001\U000e0061\U000e0fff`,
		"\ufff9\ufff0\u2065\u00ad\u061c\u00a0\u3000":      `\ufff9\ufff0\u2065\u00ad\u061c\u00a0\u3000`,
		"\u2800\U0001d159":                                `\u2800\U0001d159`,
		"\u0378\ue000\U0010fffd":                          `\u0378\ue000\U0010fffd`, // not assigned, and for private use
		"\u0301a":                                         `\u0301a`,
		" \u0301":                                         ` \u0301`,
		"e\u0301\u0302\u0303\u0304\u0305\u0306o\u0301":    "e\u0301\u0302\u0303\u0304" + `\u0305\u0306` + "o\u0301",
	} {
		got := Text(text)
		if got != want {
			t.Errorf("%+q became %+q, and not %+q", text, got, want)
		}
		if again := Text(got); again != got {
			t.Errorf("%+q became %+q", got, again)
		}
	}
	if got := Only("a\x1b\u202eb\u3164\xffc"); got != "abc" {
		t.Errorf("%q", got)
	}
}

// TestParts: a text in two parts is escaped as one, where no character is cut.
func TestParts(t *testing.T) {
	const text = "e\u0301\u0302\u0303\u0304\u0305 \x1b"
	for cut := range text {
		var r Reader
		if got := r.Map(text[:cut], Escape) + r.Map(text[cut:], Escape); got != Text(text) {
			t.Errorf("cut at %d: %+q", cut, got)
		}
	}
}

// FuzzText: nothing that is hidden is left, and nothing else is lost.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "a", "\x1b[2J", "\xff\u202e", "e\u0301\u0301\u0301\u0301\u0301", "\u3164", "\U000e0001"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		marks := 0
		for _, c := range got {
			if marks++; !unicode.In(c, unicode.Mn, unicode.Me) {
				marks = 0
			}
			if !unicode.IsPrint(c) || unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || marks > mostMarks {
				t.Errorf("%+q has %U", got, c)
			}
		}
		if !utf8.ValidString(got) || Text(got) != got || got == text && Only(text) != text {
			t.Errorf("%+q became %+q", text, got)
		}
		if strings.Contains(got, Only(text)) && Only(text) == text && got != text {
			t.Errorf("%+q is all visible, and became %+q", text, got)
		}
	})
}
