// Package visible escapes what a terminal obeys and what a reader does not see, in text that anybody may have written: names, owners,
// errors of servers. It is the only rule for that, in the library's errors and in all that the tool prints.
//
// Hidden are
//
//   - what [unicode.IsPrint] refuses: control and format characters, such as terminal escapes and marks of text direction, line breaks, every
//     space but U+0020, what is not assigned or for private use, and bytes that are no UTF-8;
//   - what Unicode says is ignored where it is not supported (Default_Ignorable_Code_Point): fillers, variation selectors, tags;
//   - a few blanks that Unicode counts as symbols;
//   - of the marks that combine with a character, those above the first [mostMarks], and those without a character.
package visible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostMarks is how many marks one character may have. Hebrew and Vietnamese have up to three, Tibetan four.
const mostMarks = 4

// blanks are symbols that look like nothing: the empty Braille pattern and the null notehead.
var blanks = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}},
}

// Reader reads a text that comes in parts. The zero Reader is at the beginning of one.
type Reader struct {
	based bool // there is a character for marks
	marks int  // that it has already
}

// Map returns the next part of the text, with what hidden returns in the place of each character that is hidden.
func (r *Reader) Map(text string, hidden func(character string) string) string {
	var b strings.Builder
	kept := 0 // text[:kept] is in b
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		if !r.shows(c, size) {
			b.WriteString(text[kept:i] + hidden(text[i:i+size]))
			kept = i + size
		}
		i += size
	}
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

// shows reports whether the next character is to be seen.
func (r *Reader) shows(c rune, size int) bool {
	if ' ' <= c && c <= '~' { // most are
		*r = Reader{based: c != ' '}
		return true
	}
	mark := unicode.In(c, unicode.Mn, unicode.Me)
	switch {
	case c == utf8.RuneError && size <= 1, !unicode.IsPrint(c), unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blanks),
		mark && (!r.based || r.marks == mostMarks):
		*r = Reader{}
		return false
	case mark:
		r.marks++
	default:
		*r = Reader{based: true}
	}
	return true
}

// Escape writes one hidden character as Go does in a string of ASCII: \x1b, \u202e, \xff.
func Escape(character string) string {
	quoted := strconv.QuoteToASCII(character)
	return quoted[1 : len(quoted)-1]
}

// Text returns a text with [Escape] in the place of each hidden character. What is visible stays as it is, backslashes too, so Text of Text is the same.
func Text(text string) string { return new(Reader).Map(text, Escape) }

// Only returns a text without its hidden characters.
func Only(text string) string { return new(Reader).Map(text, func(string) string { return "" }) }
