// Package text lays text out for readers.
package text

import "strings"

// Wrap breaks a text into lines. The first starts with lead, the others are
// indented as far.
func Wrap(text, lead string, width int) []string {
	var lines []string
	line := lead
	indent := strings.Repeat(" ", len(lead))
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return append(lines, line)
}
