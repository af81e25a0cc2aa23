// Package text lays text out for readers.
package text

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks a text into lines of at most so many columns, between words only: what is wider than that
// has a line of its own. The first starts with lead, the others are indented as far. Two spaces in a row, as a
// name may have, stay unless the line ends there.
func Wrap(text, lead string, width int) []string {
	var lines []string
	indent := strings.Repeat(" ", ansi.StringWidth(lead))
	line, empty := lead, true
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case !empty && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width:
			lines = append(lines, strings.TrimRight(line, " "))
			line, empty = indent, true
		case !empty:
			line += " "
		}
		if word != "" || !empty {
			line += word
			empty = false
		}
	}
	return append(lines, line)
}

// Count is a number and what it counts: 1 permit, 2 permits.
func Count[N ~int | ~int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
