package source

import (
	"regexp"
	"strings"
)

// Span is some code that a page of Markdown quotes.
type Span struct {
	Text   string
	Column string // the head of the column that it stands in; empty outside of tables
	Line   int
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	name   = regexp.MustCompile(`^[A-Za-z_][\w./]*$`)
)

// IsName reports whether the code is a name or a path, and not a command or an expression.
func (s Span) IsName() bool { return name.MatchString(s.Text) }

// Spans returns the code that a page quotes within its lines.
func Spans(page string) (all []Span) {
	var columns []string
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // a block of code
		}
		cells := []string{line}
		if strings.HasPrefix(line, "|") {
			cells = strings.Split(strings.Trim(line, "|"), "|")
			if columns == nil {
				for _, head := range cells {
					columns = append(columns, strings.TrimSpace(head))
				}
			}
		} else {
			columns = nil
		}
		for at, cell := range cells {
			column := ""
			if at < len(columns) {
				column = columns[at]
			}
			for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
				all = append(all, Span{Text: match[1], Column: column, Line: i + 1})
			}
		}
	}
	return all
}
